import { random } from '../../random.ts';
import { DOMAINS, TALK } from './domains.ts';
import type { AgentDomain, AgentStep } from './domains.ts';
import { fact } from './facts.ts';
import type { AgentFactKind } from './facts.ts';

/** One turn of an agent, written out. */
export interface AgentTurn {
  /** The user's line, with its line break. */
  readonly user: string;
  /** The rest of the turn: a call and its result, if there are, and the agent's line. */
  readonly rest: string;
  /** Whether the turn has a tool call. */
  readonly calls: boolean;
}
/** What the agent was told early, and is asked for at the end. */
export interface AgentFact {
  readonly kind: AgentFactKind;
  /** Number of its wording among those of its kind. */
  readonly wording: number;
  /** The right answer, which the trace has in this turn, once, and nowhere else. */
  readonly value: string;
  /** Number of its turn, from 0. */
  readonly turn: number;
  /** Text that the model goes on writing with the value. */
  readonly question: string;
}
/** An agent's conversation with tools. */
export interface AgentTrace {
  readonly id: string;
  readonly domain: AgentDomain;
  readonly turns: readonly AgentTurn[];
  readonly facts: readonly AgentFact[];
}
/** Options of `agentTrace`. */
export interface AgentTraceOptions {
  /** What the agent works at. */
  readonly domain: AgentDomain;
  /** Number of turns, at least 8. */
  readonly turns: number;
  /** The same seed gives the same trace. */
  readonly seed: number | string;
}

/** Names of the domains. */
export const agentDomains = Object.keys(DOMAINS) as readonly AgentDomain[];
/** What a tool call begins with: the name follows. */
export const AGENT_CALL = 'Tool call: {"name": "';
const KINDS: readonly AgentFactKind[] = ['credential', 'order', 'instruction'];
/** The facts lie in three of the first four turns. */
const EARLY = 4;

/**
 * Generates an agent's conversation: tool calls with results in JSON, logs, tables, pages and environment files, and in
 * three of its first four turns a credential, an order number and an instruction that nothing later repeats. In longer
 * traces a smaller share of the turns has a call, so that 200 turns fit 8,192 tokens of SmolLM2.
 * @throws RangeError for fewer than 8 turns
 */
export function agentTrace({ domain, turns, seed }: AgentTraceOptions): AgentTrace {
  if (!Number.isInteger(turns) || turns < 8)
    throw new RangeError(`agentTrace: expected a whole number of turns, at least 8, got ${turns}`);
  const id = `agents/${seed}/${domain}/${turns}`,
    draw = random(id),
    share = Math.min(0.8, Math.max(0.2, 48 / turns)),
    places = draw.sample([...Array(EARLY).keys()], KINDS.length),
    other = (): AgentStep => draw.pick(draw.next() < share ? DOMAINS[domain] : TALK)(draw);
  for (;;) {
    const told = KINDS.map((kind, i) => ({ ...fact(draw, kind), turn: places[i] })),
      steps = Array.from({ length: turns }, (_, t) => told.find(({ turn }) => turn === t)?.step ?? other()),
      text = steps
        .map(written)
        .flatMap(({ user, rest }) => [user, rest])
        .join('');
    // a longer number may hold an order number by chance
    if (told.every(({ value }) => text.split(value).length === 2))
      return { id, domain, turns: steps.map(written), facts: told.map(({ step: _, ...of }) => of) };
  }
}

function written({ user, call, agent }: AgentStep): AgentTurn {
  const called = call
    ? `${AGENT_CALL}${call.name}", "arguments": ${JSON.stringify(call.arguments)}}\nResult: ${call.result}\n`
    : '';
  return { user: `User: ${user}\n`, rest: `${called}Agent: ${agent}\n`, calls: call !== undefined };
}

/** Whether an answer that goes on from a fact's question says its value, whole, before its line ends. */
export const saysFact = ({ value }: Pick<AgentFact, 'value'>, answer: string): boolean =>
  new RegExp(`^\\W*${value}(?!\\w)`).test(answer.split('\n')[0]);

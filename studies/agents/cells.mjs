// What plan.md says, as data: policies, budgets and traces.
import { agentDomains } from '@kv/tasks';

/** Policies at the texts that they have in the plan. */
export const POLICIES = [
  { name: 'TA-Fast', policy: 'taFast' },
  { name: 'outstandingSentences', policy: 'outstandingSentences' },
  { name: 'SnapKV', policy: 'snapkv(window=16,kernel=17,pooling=max)' },
  { name: 'StreamingLLM', policy: 'streaming' },
];
/** Slots per layer and KV head, as shares of the tokens of the whole trace. */
export const SHARES = [0.12, 0.25, 0.5];
/** Tokens that are read between two events; a turn's end is one too. */
export const BLOCK = 128;
/** Turns whose next call is compared, evenly among those with a call after the facts. */
const PROBES = 8;
/** Longest answer about a fact, and longest tool call, in tokens. */
export const ANSWER = 28,
  CALL = 48;

/** Turns of the traces of a cycle, whose length shares no factor with the number of domains. */
const CYCLE = [30, 30, 30, 30, 30, 60, 30, 30, 200, 30, 30, 60, 30, 30, 120, 30];
/** Trace i of a set; those of the set `confirm` were never run before the plan was committed. */
export const traceOf = (set, i) => ({
  domain: agentDomains[i % agentDomains.length],
  turns: CYCLE[i % CYCLE.length],
  seed: `${set}/${i}`,
});

/** Returns the tokens of each turn, of which the first begins the sequence. */
export const turnsOf = (encode, trace) => encodedTurns(encode, trace).map(({ ids }) => ids);
const encodedTurns = (encode, { turns }) => turns.map(({ user, rest }, t) => encode(user + rest, { special: t === 0 }));

/** Returns the positions of the tokens of each fact's value. */
export function positionsOf(encode, trace) {
  const parts = encodedTurns(encode, trace);
  return trace.facts.map(({ turn, value }) => {
    const before = parts.slice(0, turn).reduce((sum, { ids }) => sum + ids.length, 0),
      from = (trace.turns[turn].user + trace.turns[turn].rest).indexOf(value),
      to = from + value.length;
    return parts[turn].offsets.flatMap(([start, end], at) => (start < to && end > from ? [before + at] : []));
  });
}

/** Numbers of the turns whose call is predicted, and what is asked: the user's line and the beginning of a call. */
export function probesOf({ turns }) {
  const calls = turns.flatMap(({ calls }, t) => (calls && t >= 5 ? [t] : [])),
    count = Math.min(PROBES, calls.length);
  return Array.from({ length: count }, (_, k) => calls[Math.floor(((k + 0.5) * calls.length) / count)]);
}

import { KvError, required } from '@kv/core';
import { retain } from '@kv/cpu';
import { allowanceOf, budgetOption, compile, policyOption, settleOwn } from '@kv/core/engine';
import type { OptionValues, Policy, RetainState, Tokens } from '@kv/core';
import type { ContextTokensDeleteRange, LlamaContextSequence, Token, Tokenizer } from 'node-llama-cpp';
import { textual } from './demands.ts';
import { tokensOf } from './tokens.ts';

const RETAIN_TOKENS = {
  policy: required(policyOption<Policy | string>("A policy, or its text, such as 'taFast(reach=12,slots=24)'.")),
  budget: required(budgetOption("Tokens to keep, or a share of the sequence's context.")),
};
/** Options of `retainTokens`. */
export interface RetainTokensOptions extends OptionValues<typeof RETAIN_TOKENS> {}

/** The state of a sequence before or after an event. */
interface Moment {
  /** All tokens seen, evicted ones included. */
  readonly tokens: Tokens & { readonly ids: readonly Token[] };
  /** Positions of the tokens in the cache. */
  readonly positions: readonly number[];
  /** 1 if token 0 is in the cache although the policy dropped it, else 0. */
  readonly extra: 0 | 1;
  /** State of the policy of this label. */
  readonly state: RetainState;
  readonly label: string;
}
/** The last event of each sequence; the proposed ranges may not have been erased. */
const events = new WeakMap<LlamaContextSequence, readonly [before: Moment, after: Moment]>();

/**
 * Returns the token ranges that a policy would erase now, for `contextShift.strategy` or `eraseContextTokenRanges`.
 * Token 0 is kept in addition to the budget, since without it llama.cpp evaluates all other tokens again.
 * @param sequence a sequence of a node-llama-cpp context
 * @param options the policy and its budget
 * @returns ranges of token indices to erase
 * @throws KvError for a policy that reads more than tokens and positions, for a budget or a policy that leaves no room in
 * the context, and for models with sliding windows or recurrent layers.
 */
export async function retainTokens(
  sequence: LlamaContextSequence,
  options: RetainTokensOptions,
): Promise<ContextTokensDeleteRange[]> {
  const { budget, ...given } = settleOwn('retainTokens', RETAIN_TOKENS, options),
    policy = await textual(given.policy, 'retainTokens');
  expectPlain(sequence);
  const compiled = compile(policy),
    { label } = compiled,
    { contextTokens, contextSize, model } = sequence,
    before = momentOf(contextTokens, label, events.get(sequence) ?? [], model.tokenizer),
    { tokens, positions, extra, state } = before,
    allowance = allowanceOf(compiled, budget, contextSize),
    { slots } = allowance;
  // llama.cpp shifts at one token less than its context, and token 0 is kept in addition
  if (slots + 2 >= contextSize)
    throw new KvError('budget', `must leave room in a context of ${contextSize} tokens, got ${slots}`);
  const held = positions.slice(extra);
  if (held.length <= slots) return [];
  const kept = await retain(
      policy,
      {
        layers: [{ positions: { data: Uint32Array.from(held), shape: [1, held.length] } }],
        queryHeads: 1,
        length: tokens.ids.length,
        promptLength: tokens.ids.length,
        tokens,
        state,
      },
      { budget: allowance },
    ),
    stays = new Set(Array.from(kept.slots[0][0], (slot) => slot + extra)),
    alone = stays.has(0) ? 0 : 1;
  stays.add(0);
  // with less room node-llama-cpp would erase tokens of its own choice, token 0 among them
  if (stays.size + 1 >= contextSize)
    throw new KvError(
      'retainTokens',
      `expected a policy that leaves room in a context of ${contextSize} tokens, got '${label}', which keeps ${stays.size} where the budget is ${slots}: take one that keeps or forces fewer`,
    );
  const left = positions.filter((_, slot) => stays.has(slot));
  events.set(sequence, [before, { ...before, positions: left, extra: alone, state: kept.state }]);
  return rangesWithout(stays, positions.length);
}

function expectPlain(sequence: LlamaContextSequence): void {
  if (!Array.isArray(sequence?.contextTokens))
    throw new KvError('retainTokens', 'expected a sequence of a context, got something without contextTokens');
  const { isRecurrent, isHybrid, swaSize } = sequence.model.fileInsights;
  if (isRecurrent || isHybrid || swaSize !== undefined)
    throw new KvError(
      'retainTokens',
      `expected a model of plain attention, got one ${swaSize === undefined ? 'with recurrent layers' : `that sees ${swaSize} tokens`}, whose erased tokens would cost a new evaluation`,
    );
}

/** Whether the tokens `now` continue those that the sequence held at that moment. */
const follows = (now: readonly Token[], { tokens: { ids }, positions }: Moment): boolean =>
  positions.length <= now.length && positions.every((position, slot) => ids[position] === now[slot]);

/** Returns the current state of the sequence; starts again where it does not continue from its last event. */
function momentOf(
  now: readonly Token[],
  label: string,
  event: readonly Moment[],
  tokenizer: Pick<Tokenizer, 'detokenize'>,
): Moment {
  const last = event.find((moment) => follows(now, moment)),
    fresh = now.slice(last?.positions.length ?? 0),
    seen = last?.tokens.ids.length ?? 0,
    ids = [...(last?.tokens.ids ?? []), ...fresh];
  return {
    tokens: { ...tokensOf(ids, tokenizer, last?.tokens), ids },
    positions: [...(last?.positions ?? []), ...fresh.map((_, i) => seen + i)],
    extra: last?.extra ?? 0,
    label,
    state: last?.label === label ? last.state : new Map(),
  };
}

function rangesWithout(stays: ReadonlySet<number>, length: number): ContextTokensDeleteRange[] {
  const ranges: ContextTokensDeleteRange[] = [];
  for (let slot = 0; slot < length; slot++) {
    if (stays.has(slot)) continue;
    const last = ranges.at(-1);
    if (last?.end === slot) last.end++;
    else ranges.push({ start: slot, end: slot + 1 });
  }
  return ranges;
}

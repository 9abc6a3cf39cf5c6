import { KvError, retain, slotsOf } from '@kv/core';
import type { Budget, Policy, RetainedState } from '@kv/core';
import { expectTextual } from './demands.ts';
import { tokensOf, type LlamaSequenceLike } from './tokens.ts';

export interface RetainTokensOptions {
  readonly policy: Policy;
  /** Tokens that stay, or a share of those seen. */
  readonly budget: Budget;
}
/** Tokens from `start` up to `end`, which goes. */
export interface TokenRange {
  readonly start: number;
  readonly end: number;
}

/** What a sequence has been through. */
interface Past {
  /** All tokens seen, evicted ones included. */
  readonly ids: readonly number[];
  /** Positions that the last event kept. */
  readonly kept: readonly number[];
  readonly state: RetainedState;
}
const pasts = new WeakMap<object, Map<Policy, Past>>();

/**
 * Token ranges that a policy would erase now: what a `contextShift.strategy` returns, or `eraseContextTokenRanges`
 * takes. Token 0 stays beside the budget, since without it llama.cpp evaluates all others anew.
 *
 * @throws KvError for a policy that reads more than tokens and positions, for a budget that leaves no room in the
 * context, and for models with sliding windows or recurrent layers.
 */
export async function retainTokens(
  sequence: LlamaSequenceLike,
  { policy, budget }: RetainTokensOptions,
): Promise<TokenRange[]> {
  expectTextual(policy, 'retainTokens');
  const { model, context } = sequence,
    { isRecurrent, isHybrid, swaSize } = model.fileInsights ?? {};
  if (isRecurrent || isHybrid || swaSize)
    throw new KvError(
      'retainTokens',
      `expected a model of plain attention, got one ${swaSize ? `that sees ${swaSize} tokens` : 'with recurrent layers'}, whose erased tokens would cost a new evaluation`,
    );
  const now = sequence.contextTokens,
    { ids, positions, state } = continued(now, pasts.get(sequence)?.get(policy)),
    slots = slotsOf(budget, ids.length);
  if (slots + 1 >= context.contextSize)
    throw new KvError('budget', `must leave room in a context of ${context.contextSize} tokens, got ${slots}`);
  if (now.length <= slots) return [];
  const { slots: sets, state: next } = await retain(
      policy,
      {
        layers: [{ positions: { data: Uint32Array.from(positions), shape: [1, positions.length] } }],
        queryHeads: 1,
        length: ids.length,
        promptLength: ids.length,
        tokens: tokensOf(ids, model),
        state,
      },
      { budget: slots },
    ),
    stays = new Set([0, ...sets[0][0]]),
    kept = positions.filter((_, slot) => stays.has(slot));
  const known = pasts.get(sequence) ?? new Map<Policy, Past>();
  pasts.set(sequence, known.set(policy, { ids, kept, state: next }));
  return rangesWithout(stays, now.length);
}

/** What of a sequence is new since the last event; where it is another text by now, it begins anew. */
function continued(
  now: readonly number[],
  past: Past | undefined,
): { readonly ids: readonly number[]; readonly positions: readonly number[]; readonly state: RetainedState } {
  const count = past?.kept.length ?? 0;
  if (!past || count > now.length || past.kept.some((position, slot) => past.ids[position] !== now[slot]))
    return { ids: [...now], positions: Array.from(now, (_, i) => i), state: new Map() };
  const fresh = now.slice(count);
  return {
    ids: [...past.ids, ...fresh],
    positions: [...past.kept, ...fresh.map((_, i) => past.ids.length + i)],
    // Of token 0, which the policy may have dropped, it remembers nothing.
    state: past.state,
  };
}

function rangesWithout(stays: ReadonlySet<number>, length: number): TokenRange[] {
  const ranges: { start: number; end: number }[] = [];
  for (let slot = 0; slot < length; slot++) {
    if (stays.has(slot)) continue;
    const last = ranges.at(-1);
    if (last?.end === slot) last.end++;
    else ranges.push({ start: slot, end: slot + 1 });
  }
  return ranges;
}

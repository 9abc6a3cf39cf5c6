import { count, maybe, number, share, whole } from '@kv/core';
import { orWord } from '@kv/core/shared';
import type { NewNotes, ResolvedOptions, Signal, StepContext, Tensor, Tokens } from '@kv/core';
import { byPosition } from './detector.ts';
import type { Anchor } from './detector.ts';
import { aging, freshness } from './freshness.ts';
import { vouchers } from './vouchers.ts';
import { wholeValues } from './whole-values.ts';

/** Factor of a voucher for each further token from its anchor. */
const FALLOFF = 0.8;
const TOO_LONG =
  'A value is longer than `most` tokens of its sponsor, and only its first ones are vouched for: raise `most`.';

/** Options of a scorer of vouchers; `strength` is the default worth of a certain anchor. */
export const vouchingOptions = (strength: number) => ({
  reach: orWord(
    count(
      6,
      'tokens',
      "Tokens after an anchor that it sponsors, L, each 0.8 times as much as the one before it (the paper's); or `value`: its whole value, evenly.",
    ),
    'value',
  ),
  most: count(128, 'tokens', 'Tokens of a whole value at most, with `reach=value`: the first ones.'),
  lead: whole(
    12,
    'tokens',
    'Tokens before a whole value that are kept with it, at most, with `reach=value`: its key, or its sentence so far.',
  ),
  strength: number(strength, 'Sponsor budget B of an anchor.', { least: 0 }),
  decay: maybe(
    share(0.9, "What is left of an anchor's budget after every generated token."),
    "the paper's 0.9; with `reach=value` 1",
  ),
});
type Vouching = ResolvedOptions<ReturnType<typeof vouchingOptions>>;

const decayOf = ({ decay, reach }: Pick<Vouching, 'decay' | 'reach'>): number => decay ?? (reach === 'value' ? 1 : 0.9);
/** Signals and hooks of a scorer of vouchers; budgets that do not decay need no state. */
export const fading = {
  needs: (o: Pick<Vouching, 'decay' | 'reach'>): readonly Signal<'fresh'>[] =>
    decayOf(o) === 1 ? [] : [freshness(decayOf(o))],
  hooks: (o: Pick<Vouching, 'decay' | 'reach'>) => (decayOf(o) === 1 ? [] : [aging({ decay: decayOf(o) })]),
};

/**
 * Returns `strength` times what anchors vouch with, spread over the tokens after each or over its whole value.
 *
 * @param anchors finds them; called when the text has grown
 */
export function vouchFor(
  ctx: StepContext & { readonly tokens: Tokens; readonly positions: Tensor; readonly fresh?: Tensor },
  anchors: () => readonly Anchor[],
  o: Pick<Vouching, 'reach' | 'most' | 'lead' | 'strength'>,
): { readonly scores: Tensor } & NewNotes {
  const { ops, positions, at } = ctx,
    { reach, strength } = o;
  if (reach === 'value') {
    const { row, cut } = wholeValues(ctx, o, o, anchors),
      worth = ops.take(ops.from(row), positions);
    return {
      scores: ops.mul(ctx.fresh ? ops.mul(worth, ops.take(ctx.fresh, positions)) : worth, strength),
      ...(cut > 0 && { notes: [{ unless: ops.from({ data: Float32Array.of(-1), shape: [1, 1] }), says: TOO_LONG }] }),
    };
  }
  const budgets = ops.from(byPosition(ctx, o, (data) => worthOf(data, anchors()))),
    fresh = ctx.fresh ?? ops.from({ data: new Float32Array(at.length).fill(1), shape: [1, at.length] });
  return {
    scores: ops.mul(ops.kernel(vouchers, { budgets, fresh, positions }, { reach, falloff: FALLOFF }), strength),
  };
}
/** Writes the worth of each anchor at its position. */
function worthOf(data: Float32Array, anchors: readonly Anchor[]): void {
  for (const { position, worth = 1 } of anchors) if (position in data) data[position] = Math.max(data[position], worth);
}

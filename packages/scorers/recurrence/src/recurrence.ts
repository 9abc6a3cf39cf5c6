import { as, attentionLast, number, onStep, positions, state, weightScorer, whole } from '@kv/core';
import type { Ops, StepContext, Tensor } from '@kv/core';

const options = {
  above: number(0.001, 'Weight above which a step looks at a slot.', { least: 0, below: 1 }),
};
interface Above {
  readonly above: number;
}
const needs = ({ above }: Above) =>
  [
    attentionLast,
    positions,
    as('seen', state(`recurrence.seen(${above})`, { kind: 'slot', rows: 'kv', init: -1 })),
    as('longest', state(`recurrence.longest(${above})`, { kind: 'slot', rows: 'kv' })),
    as('started', state(`recurrence.started(${above})`, { kind: 'sequence', rows: 'kv' })),
  ] as const;

/** The step that last looked at each slot: none so far, that is its own, or the prompt's last. */
const lastSeen = ({ ops, at }: StepContext, seen: Tensor, p: Tensor): Tensor =>
  ops.where(ops.less(seen, 0), ops.max(ops.float(p), at.promptLength - 1), seen);

const tracking = onStep('tracking', { options, needs }, (ctx, { above }) => {
  const { ops, at, attention, positions: p, seen, longest, started } = ctx,
    now = at.length - 1,
    looked = ops.less(above, ops.reduceRows('max', attention, at.kvHeads)), // [G, n]
    gap = ops.sub(now, lastSeen(ctx, seen, p));
  return {
    seen: ops.where(looked, now, seen),
    longest: ops.where(looked, ops.max(longest, gap), longest),
    started: ops.fill(started, 1),
  };
});

/** Largest exponent: 1 / (1 + e^80) is 0 next to any other score, and e^80 is a number in f32. */
const MOST = 80;
/** 2 σ(-x) for x of at least 0: from 1 at 0 down to 0. */
const fading = (ops: Ops, x: Tensor): Tensor => ops.div(2, ops.add(1, ops.exp(ops.min(MOST, x))));

/**
 * LazyEviction: how likely a slot is to be looked at again, 2σ(-(t - TS) / MRI) + 2σ(-1 / MRI). TS is the last
 * generated token that gave it more than `above`, MRI the longest time between two that did, or from the slot's own
 * token to the first. Slots that none looked at score 0.
 *
 * @remarks Zhang et al. 2025, arXiv:2506.15969v3 (ACL 2026), read from a third party's notes on it: they give both
 * terms and say that they are combined, not how, and no threshold. The sum, `above` and the maximum over the head group
 * are ours. A prompt's slots count from its end. Before a token is generated the scores are the newest query's
 * attention. Weights on KV rows `[G, n]`; the last `recent` slots are forced. Keeps two numbers a slot and KV head;
 * compose with `cadence({ every })` for the paper's eviction every W tokens.
 */
export const recurrence = weightScorer(
  'recurrence',
  {
    source: 'Zhang et al. 2025, arXiv:2506.15969v3',
    says: 'How likely a slot is to be looked at again, by the longest time between two looks.',
    options: { ...options, recent: whole(32, 'slots', "Last slots that always stay, the paper's W.") },
    needs,
    ends: ({ recent: last }) => ({ last }),
    hooks: ({ above }) => [tracking({ above })],
  },
  (ctx, { recent }) => {
    const { ops, at, attention, positions: p, seen, longest, started } = ctx,
      ago = ops.max(0, ops.sub(at.length - 1, lastSeen(ctx, seen, p))),
      span = ops.max(longest, 1),
      likely = ops.add(fading(ops, ops.div(ago, span)), fading(ops, ops.div(1, span))),
      scores = ops.where(ops.less(0, longest), likely, 0);
    return {
      scores: ops.where(started, scores, ops.reduceRows('max', attention, at.kvHeads)),
      forced: ops.lastSlots(p, recent),
    };
  },
);

import { compose, positions, scorer, selector, state, unit, unitSelector, weightScorer } from '@kv/core';
import type { Ops, Tensor } from '@kv/core';
import type { FaultContext } from './faulty-values.ts';

/** A tensor of correct scores. */
export const even = ({ ops, at }: FaultContext, rows = at.kvHeads, columns = at.slots): Tensor =>
  ops.from({
    data: Float32Array.from({ length: rows * columns }, (_, i) => 1 + ((i * 7) % columns)),
    shape: [rows, columns],
  });
export const zeros = (ops: Ops, shape: readonly number[], dtype?: 'u32'): Tensor =>
  ops.from({ data: new Float32Array(shape.reduce((a, b) => a * b, 1)), shape }, dtype);
export const maskOf = ({ ops, at }: FaultContext): Tensor => zeros(ops, [1, at.slots]);
export const first = ({ ops, at }: FaultContext, n: number): Tensor =>
  ops.from(
    { data: Uint32Array.from({ length: at.selectRows * n }, (_, i) => i % n), shape: [at.selectRows, n] },
    'u32',
  );

export const plain = scorer('plain', {}, (ctx) => even(ctx))();
/** Keeps the last slots. */
export const newest = scorer('newest', { needs: [positions] }, ({ ops, positions: p }) => ops.float(p))();
export const weights = weightScorer('weights', {}, (ctx) => even(ctx))();
export const topK = selector('topK', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks))();
export const byUnits = unitSelector(
  'byUnits',
  {},
  ({ ops, at, budgets, scores }) => ops.select(scores, budgets) ?? at,
)();
export const halves = ({ ops, at }: FaultContext) => ({
  of: ops.from(
    { data: Uint32Array.from({ length: at.slots }, (_, i) => (2 * i < at.slots ? 0 : 1)), shape: [1, at.slots] },
    'u32',
  ),
  count: 2,
});
export const cut = unit('cut', {}, (ctx) => ({ units: halves(ctx), scores: even(ctx, 1, 2) }))();
export const kept = state('kept', { kind: 'slot', rows: 'kv' });
export const inner = compose(plain, topK);

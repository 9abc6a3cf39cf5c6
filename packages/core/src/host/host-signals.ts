import type { LayerContext } from '../piece/atoms.ts';
import { kernel } from '../tensor/kernel.ts';
import type { Ops } from '../tensor/maths.ts';
import { range } from '../tensor/range.ts';
import { sameSignal } from '../piece/signals.ts';
import type { AnySignal, WindowStatistic } from '../piece/signals.ts';
import { stateColumns } from '../piece/state.ts';
import type { StateSpec } from '../piece/state.ts';

import type { HostArray, Tensor } from '../tensor/tensor.ts';
import { blockAttention, overWindow } from '../piece/window-blocks.ts';
import type { WindowBlock } from '../piece/window-blocks.ts';

// Signals that a host without an engine of ours can compute from arrays.

/** Returns the rows and columns of piece state in one layer. */
export function stateShape(spec: StateSpec, at: LayerContext): readonly [rows: number, columns: number] {
  const { kind, rows } = spec,
    count = { query: at.queryHeads, kv: at.kvHeads, layer: 1, model: 1 }[rows];
  return [
    count,
    { slot: at.slots, position: at.length, unit: at.slots, sequence: stateColumns(spec, at.headDim) }[kind],
  ];
}

/** Returns state as an array of the layer's current size; entries that were never written have the initial value. */
export function stateArray(spec: StateSpec, at: LayerContext, before?: HostArray): HostArray {
  const [rows, fresh] = stateShape(spec, at);
  const have = before?.shape[1] ?? 0;
  const columns = spec.kind === 'unit' ? Math.max(have, before ? 0 : fresh) : fresh;
  const data = new (spec.dtype === 'u32' ? Uint32Array : Float32Array)(rows * columns).fill(spec.init ?? 0);
  for (let r = 0; before && r < rows; r++)
    for (let i = 0; i < Math.min(have, columns); i++) data[r * columns + i] = before.data[r * have + i];
  return { data, shape: [rows, columns] };
}

/** Positions of a cache from which nothing was evicted: 0 .. n - 1 in every head. */
export const countedPositions = (heads: number, slots: number): HostArray => ({
  data: Uint32Array.from({ length: heads * slots }, (_, i) => i % slots),
  shape: [heads, slots],
});

/** Biases of slots that add nothing to their logits. */
export const noBiases = (heads: number, slots: number): HostArray => ({
  data: new Float32Array(heads * slots),
  shape: [heads, slots],
});

/** 1 where a query of a block sees the slot (those at or before its own position), else 0. */
const visible = kernel({
  id: 'window-visible',
  inputs: { p: 'f32', positions: 'u32' },
  params: { block: 'u32', first: 'f32' },
  ragged: 'positions',
  output: { shape: ({ p }) => p },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = p_shape.y; let row = index / n;
  let slot = row / (p_shape.x / positions_shape.x) * n + index % n;
  output[index] = select(0.0, 1.0, f32(positions[slot]) <= params.first + f32(row % params.block));
}`,
  ref({ p, positions }, { block, first }, out, lengths) {
    const [rows, n] = p.shape;
    for (let r = 0; r < rows; r++) {
      const g = Math.floor((r * positions.shape[0]) / rows);
      for (let i = 0; i < lengths[g]; i++) out[r * n + i] = Number(positions.data[g * n + i] <= first + (r % block));
    }
  },
});

interface Seen {
  readonly ops: Ops;
  readonly at: LayerContext;
  readonly queries: Tensor;
  readonly keys: Tensor;
  readonly positions: Tensor;
}
/** Applies a window statistic to a block's weights `[H c, n]`. */
function counted({ ops, positions }: Seen, { count, first }: WindowBlock, p: Tensor, of: WindowStatistic): Tensor {
  if (of === 'squares') return ops.mul(p, p);
  if (of === 'entropy') return ops.mul(ops.mul(p, ops.log(ops.max(p, 1e-30))), -1);
  const seen = ops.sum(ops.kernel(visible, { p, positions }, { block: count, first })); // [H c, 1]
  return of === 'votes' ? ops.less(ops.div(1, seen), p) : ops.mul(p, ops.sub(seen, 1));
}

/**
 * Computes the last queries, or attention over windows of them, from queries `[H, w, d]` and keys `[G, n, d]` after
 * rotary embedding; undefined for other signals, or if there are no queries.
 *
 * @remarks A window larger than the number of queries takes all of them, as in an engine.
 */
export function windowSignal(signal: AnySignal, seen: Seen): Tensor | undefined {
  const { ops, at, queries } = seen;
  const [heads, have, d] = queries.shape;
  const newest = signal.id === 'attention.last';
  const wanted = newest ? 1 : Number(signal.args?.['w'] ?? 0);
  if (!/^(?:queries|attention\.(?:window|last|max))$/.test(signal.id) || wanted < 1 || have < 1) return undefined;
  const w = Math.min(have, wanted);
  const last = ops.take(queries, ops.from({ data: range(have - w, w), shape: [1, w] }, 'u32'));
  const own = { ...seen, queries: ops.reshape(last, [heads, w, d]) };
  if (signal.id === 'queries') return own.queries;
  const of = signal.args?.['of'] as WindowStatistic | undefined;
  const most = signal.id === 'attention.max';
  const total = overWindow(own, most ? 'max' : 'sum', at.queryHeads, (block) => {
    const p = blockAttention(own, block);
    return of ? counted(own, block, p, of) : p;
  });
  return most ? total : ops.div(total, w);
}

/**
 * Returns the other signals that pieces read under the same name, and that one array of that name cannot all provide.
 */
export const sharers = (needs: readonly AnySignal[], signal: AnySignal): readonly AnySignal[] =>
  needs.filter((other) => other.as === signal.as && !sameSignal(other, signal));

/** Whether a value is numbers with a shape, row-major or strided. */
export const isArray = (x: unknown): x is HostArray =>
  typeof x === 'object' && x !== null && 'data' in x && 'shape' in x && Array.isArray(x.shape);

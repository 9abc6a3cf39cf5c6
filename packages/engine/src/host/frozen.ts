import { runFreeze } from '@kv/core/engine';
import { countBelow } from '@kv/core/shared';
import type { FreezeHook, LayerContext } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import type { Projection } from './decoder.ts';

/** Returns the rows [from, to) of a block that a layer freezes (ETF), never one of the prompt's last `keep`. */
export function frozenRows(
  hook: FreezeHook,
  at: LayerContext,
  positions: Uint32Array,
  keep: number,
): readonly [from: number, to: number] {
  const { sinks, below } = runFreeze(hook, at),
    to = countBelow(positions, Math.min(below, at.promptLength - keep));
  return [Math.min(to, countBelow(positions, sinks)), to];
}

/** Returns the rows of a block that a layer computes: all but the frozen ones. */
export function liveRows(
  { hooks }: CompiledPolicy,
  at: LayerContext,
  positions: Uint32Array,
  keep: number,
): Uint32Array {
  const [hook] = hooks('freeze'),
    all = Uint32Array.from(positions, (_, i) => i);
  if (!hook) return all;
  const [from, to] = frozenRows(hook, at, positions, keep);
  return all.filter((i) => i < from || i >= to);
}

/** Returns rows `[m', width]` of x `[m, width]`. */
export function pick(x: Float32Array, rows: Uint32Array, width: number): Float32Array {
  const out = new Float32Array(rows.length * width);
  rows.forEach((row, i) => out.set(x.subarray(row * width, (row + 1) * width), i * width));
  return out;
}

/** Writes rows `[m', width]` into x `[m, width]`, in place. */
export function put(x: Float32Array, rows: Uint32Array, width: number, from: Float32Array): void {
  rows.forEach((row, i) => x.set(from.subarray(i * width, (i + 1) * width), row * width));
}

/** Returns the rows of queries `[H, m, d]` that attend. */
export function pickQueries(q: Float32Array, rows: Uint32Array, m: number, dim: number): Float32Array {
  const heads = q.length / (m * dim),
    out = new Float32Array(heads * rows.length * dim);
  for (let h = 0; h < heads; h++)
    out.set(pick(q.subarray(h * m * dim, (h + 1) * m * dim), rows, dim), h * rows.length * dim);
  return out;
}

/** Returns keys and values of the whole block: live rows as computed, frozen ones as in the previous layer. */
export function withFrozen(
  live: Projection,
  rows: Uint32Array,
  m: number,
  previous: { readonly k: Float32Array; readonly v: Float32Array },
  dim: number,
): { k: Float32Array; v: Float32Array } {
  const k = previous.k.slice(),
    v = previous.v.slice(),
    heads = k.length / (m * dim);
  for (let g = 0; g < heads; g++)
    rows.forEach((row, i) => {
      const from = (g * rows.length + i) * dim;
      k.set(live.k.subarray(from, from + dim), (g * m + row) * dim);
      v.set(live.v.subarray(from, from + dim), (g * m + row) * dim);
    });
  return { k, v };
}

/** Returns the positions of these rows. */
export const pickPositions = (positions: Uint32Array, rows: Uint32Array): Uint32Array =>
  Uint32Array.from(rows, (row) => positions[row]);

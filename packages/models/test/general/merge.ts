import { keys, onCompact, values } from '@kv/core';
import type { Hooked, Kernel } from '@kv/core';

/** Each evicted value is averaged into the kept slot whose key is nearest by cosine. */
const mergeNearest: Kernel = {
  id: 'merge-nearest', inputs: { keys: 'f32', values: 'f32', stays: 'f32' }, params: {}, ragged: 'keys', per: 'row',
  output: { dtype: 'f32', shape: ({ values: v }) => v! },
  wgsl: /* wgsl */ `
fn cosine(a: u32, b: u32, d: u32) -> f32 {
  var ab = 0.0; var aa = 0.0; var bb = 0.0;
  for (var c = 0u; c < d; c++) { let x = keys[a * d + c]; let y = keys[b * d + c]; ab += x * y; aa += x * x; bb += y * y; }
  return ab / max(sqrt(aa * bb), 1e-12);
}
fn nearest(g: u32, e: u32, n: u32, d: u32) -> u32 {
  var best = -2.0; var at = 0u;
  for (var i = 0u; i < keys_lengths[g]; i++) { if (stays[g * n + i] != 0.0) { let c = cosine(g * n + e, g * n + i, d); if (c > best) { best = c; at = i; } } }
  return at;
}
fn run(g: u32) {
  let n = keys_shape.y; let d = keys_shape.z;
  for (var i = 0u; i < keys_lengths[g]; i++) {
    var held = 1.0;
    for (var c = 0u; c < d; c++) { output[(g * n + i) * d + c] = values[(g * n + i) * d + c]; }
    if (stays[g * n + i] != 0.0) {
      for (var e = 0u; e < keys_lengths[g]; e++) { if (stays[g * n + e] == 0.0 && nearest(g, e, n, d) == i) {
        held += 1.0;
        for (var c = 0u; c < d; c++) { output[(g * n + i) * d + c] += values[(g * n + e) * d + c]; }
      } }
      for (var c = 0u; c < d; c++) { output[(g * n + i) * d + c] /= held; }
    }
  }
}`,
  ref({ keys: k, values: v, stays }, _params, out, lengths) {
    const [G = 0, n = 0, d = 0] = k!.shape;
    const key = (g: number, i: number): Float32Array => k!.data.subarray((g * n + i) * d, (g * n + i + 1) * d) as Float32Array;
    const dot = (a: Float32Array, b: Float32Array): number => a.reduce((s, x, c) => s + x * b[c]!, 0);
    const cosine = (a: Float32Array, b: Float32Array): number => dot(a, b) / Math.max(Math.sqrt(dot(a, a) * dot(b, b)), 1e-12);
    out.set(v!.data);
    for (let g = 0; g < G; g++) {
      const held = new Map<number, number>(), slots = Array.from({ length: lengths[g]! }, (_, i) => i);
      const stay = slots.filter((i) => stays!.data[g * n + i] !== 0);
      for (const e of slots.filter((i) => stays!.data[g * n + i] === 0)) {
        const to = stay.reduce((best, i) => (cosine(key(g, e), key(g, i)) > cosine(key(g, e), key(g, best)) ? i : best), stay[0]!);
        held.set(to, (held.get(to) ?? 1) + 1);
        for (let c = 0; c < d; c++) out[(g * n + to) * d + c]! += v!.data[(g * n + e) * d + c]!;
      }
      for (const [to, count] of held) for (let c = 0; c < d; c++) out[(g * n + to) * d + c]! /= count;
    }
  },
};

/** A merging compaction: evicted values are folded into kept ones. */
export const merge = (): Hooked<'merge'> => onCompact('merge', [keys, values], ({ ops, keys: k, values: v, kept }) =>
  ({ values: ops.kernel(mergeNearest, { keys: k, values: v, stays: ops.mark(kept, ops.norm(k)) }) }));

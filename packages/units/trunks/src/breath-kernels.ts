import { kernel } from '@kv/core';

/**
 * The previous numbers of the first entries, where they were written (at least 0), and `fresh` for the others. Both
 * `[1, n]`, of any lengths.
 */
export const carryKernel = kernel({
  id: 'breath-carried',
  inputs: { before: 'f32', fresh: 'f32' },
  output: { shape: ({ fresh }) => fresh },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  output[index] = fresh[index];
  if (index < before_shape.x * before_shape.y) { if (before[index] >= 0.0) { output[index] = before[index]; } }
}`,
  ref({ before, fresh }, _, out) {
    out.forEach((_, i) => {
      const known = before.data[i] ?? -1;
      out[i] = known >= 0 ? known : fresh.data[i];
    });
  },
});

/**
 * Number of slots, over all rows, whose position belongs to each unit: `positions` u32 `[G, n]`, `unitOf` f32 `[1, N]`
 * by position, negative where it has none; as many units as `like`. O(G n) each.
 */
export const holding = kernel({
  id: 'breath-holding',
  inputs: { positions: 'u32', unitOf: 'f32', like: 'f32' },
  ragged: 'positions',
  output: { shape: ({ like }) => like },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = positions_shape.y;
  let known = unitOf_shape.x * unitOf_shape.y;
  var count = 0.0;
  for (var r = 0u; r < positions_shape.x; r++) {
    for (var i = 0u; i < positions_lengths[r]; i++) {
      let p = positions[r * n + i];
      if (p < known) { if (unitOf[p] == f32(index)) { count += 1.0; } }
    }
  }
  output[index] = count;
}`,
  ref({ positions: p, unitOf }, _, out, lengths) {
    const [rows = 0, n = 0] = p.shape;
    out.fill(0);
    for (let r = 0; r < rows; r++)
      for (let i = 0; i < lengths[r]; i++) {
        const u = unitOf.data[p.data[r * n + i]] ?? -1;
        if (u >= 0 && u < out.length) out[u] += 1;
      }
  },
});

/** A pulse crosses an edge at half the edge's weight, and ends below this. */
const HOP = 0.5,
  LEAST = 0.01;

/**
 * Π (1 - gain p) over the pulses p that reach each unit from active ones along walks of one edge, or two that end at a
 * unit other than their start.
 *
 * @remarks CrystalCache, eq. 37 and 38. Edges `a`, `b` u32 and `weight` f32 `[1, E]`, in either direction, `lit` f32, 1
 * where a unit is active, `[1, units]`; output `[1, units]`. O(E) a unit and O(E) for each edge at it.
 */
export const resonance = kernel({
  id: 'breath-resonance',
  inputs: { a: 'u32', b: 'u32', weight: 'f32', lit: 'f32' },
  params: { hops: 'u32', gain: 'f32' },
  output: { shape: ({ lit }) => lit },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let E = weight_shape.x * weight_shape.y;
  var left = 1.0;
  for (var e = 0u; e < E; e++) {
    if (a[e] != index && b[e] != index) { continue; }
    let middle = select(a[e], b[e], a[e] == index);
    let last = weight[e] * ${HOP};
    if (params.hops > 0u && last >= ${LEAST} && lit[middle] != 0.0) { left *= 1.0 - params.gain * last; }
    if (params.hops < 2u) { continue; }
    for (var f = 0u; f < E; f++) {
      if (a[f] != middle && b[f] != middle) { continue; }
      let start = select(a[f], b[f], a[f] == middle);
      let first = weight[f] * ${HOP};
      if (start != index && lit[start] != 0.0 && first >= ${LEAST} && first * last >= ${LEAST}) { left *= 1.0 - params.gain * first * last; }
    }
  }
  output[index] = left;
}`,
  ref({ a, b, weight, lit }, { hops, gain }, out) {
    const E = weight.data.length,
      at = Array.from({ length: out.length }, (): number[] => []),
      other = (e: number, u: number): number => (a.data[e] === u ? b.data[e] : a.data[e]);
    for (let e = 0; e < E; e++) for (const u of new Set([a.data[e], b.data[e]])) at[u]?.push(e);
    out.forEach((_, u) => {
      let left = 1;
      for (const e of at[u]) {
        const middle = other(e, u),
          last = weight.data[e] * HOP;
        if (hops > 0 && last >= LEAST && lit.data[middle] !== 0) left *= 1 - gain * last;
        if (hops < 2) continue;
        for (const f of at[middle] ?? []) {
          const start = other(f, middle),
            first = weight.data[f] * HOP;
          if (start !== u && lit.data[start] !== 0 && first >= LEAST && first * last >= LEAST)
            left *= 1 - gain * first * last;
        }
      }
      out[u] = left;
    });
  },
});

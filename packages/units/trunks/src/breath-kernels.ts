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
 * Π (1 - gain p) over the pulses p that reach each unit from active ones, over one edge or two.
 *
 * Where `once` is not 0, a pulse reaches a unit once: by the edge between them, or else over the first unit of the text
 * that it passes on from. Otherwise it comes along every walk that ends elsewhere than it began.
 *
 * @remarks CrystalCache, eq. 37 and 38. `weight` f32 `[1, m (m - 1) / 2]`, of the units a < b at b (b - 1) / 2 + a, and
 * `lit` f32, 1 where a unit is active, `[1, m]`; output `[1, m]`. O(m) for each active unit and unit.
 */
export const resonance = kernel({
  id: 'breath-resonance',
  inputs: { weight: 'f32', lit: 'f32' },
  params: { hops: 'u32', gain: 'f32', once: 'u32' },
  output: { shape: ({ lit }) => lit },
  wgsl: /* wgsl */ `
fn crossed(a: u32, b: u32) -> f32 {
  let high = max(a, b);
  let place = high * (high - 1u) / 2u + min(a, b);
  if (place >= weight_shape.y) { return 0.0; }
  return weight[place] * ${HOP};
}
fn run(unit: u32) {
  let m = lit_shape.y;
  var left = 1.0;
  for (var start = 0u; start < m && params.hops > 0u; start++) {
    if (start == unit || lit[start] == 0.0) { continue; }
    let pulse = crossed(start, unit);
    if (pulse >= ${LEAST}) {
      left *= 1.0 - params.gain * pulse;
      if (params.once != 0u) { continue; }
    }
    for (var middle = 0u; middle < m && params.hops > 1u; middle++) {
      if (middle == start || middle == unit) { continue; }
      let first = crossed(start, middle);
      if (first < ${LEAST}) { continue; }
      let second = first * crossed(middle, unit);
      if (second < ${LEAST}) { continue; }
      left *= 1.0 - params.gain * second;
      if (params.once != 0u) { break; }
    }
  }
  output[unit] = left;
}`,
  ref({ weight, lit }, { hops, gain, once }, out) {
    const m = out.length,
      crossed = (a: number, b: number): number =>
        (weight.data[(Math.max(a, b) * (Math.max(a, b) - 1)) / 2 + Math.min(a, b)] ?? 0) * HOP,
      active = Array.from(lit.data.keys()).filter((u) => lit.data[u] !== 0);
    const passedOn = (start: number, unit: number): number => {
      let left = 1;
      for (let middle = 0; middle < m; middle++) {
        if (middle === start || middle === unit) continue;
        const first = crossed(start, middle),
          second = first < LEAST ? 0 : first * crossed(middle, unit);
        if (second < LEAST) continue;
        left *= 1 - gain * second;
        if (once !== 0) break;
      }
      return left;
    };
    out.forEach((_, unit) => {
      let left = 1;
      for (const start of hops === 0 ? [] : active) {
        if (start === unit) continue;
        const pulse = crossed(start, unit),
          direct = pulse >= LEAST;
        if (direct) left *= 1 - gain * pulse;
        if (hops > 1 && !(direct && once !== 0)) left *= passedOn(start, unit);
      }
      out[unit] = left;
    });
  },
});

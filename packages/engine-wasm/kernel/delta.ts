// @ts-nocheck: AssemblyScript, not TypeScript
// Memories that rows change and read: the gated delta rule and the state space, as @kv/engine's gatedDelta and stateSpace: in
// FORM 0, where nothing is fused, to the bit. Heads are multiples of four numbers wide. What a row gets does not depend on the rows that come with it, in any form.

import { fma, plainExp4, plainSigmoid4, plainSoftplus4, sum4, zeros } from "./forms";

/** Rows that go through a head at a time, so that what is made of them stays in the first-level cache. */
const SOME: usize = 32;
/** Channels of a memory that are worked on together: a line. */
const LINE: usize = 32;

/** Bytes of scratch of pieces: q, k and v of some rows, two gates of each, and some channels of a memory. */
export function memoryScratch(keyDim: usize, valueDim: usize): usize {
  return 4 * SOME * (2 * keyDim + valueDim + 2) + 4 * LINE * keyDim;
}


/** x / sqrt(sum of x² + 1e-6), times `by`, in place. */
function unit(x: usize, width: usize, by: f32): void {
  let sum = f32x4.splat(0);
  for (let i = x; i < x + 4 * width; i += 16) sum = f32x4.add(sum, f32x4.mul(v128.load(i), v128.load(i)));
  const scale = f32x4.splat((<f32>1 / sqrt<f32>(sum4(sum) + <f32>1e-6)) * by);
  for (let i = x; i < x + 4 * width; i += 16) v128.store(i, f32x4.mul(v128.load(i), scale));
}

/** Where the row lies that comes `j` after the first one that a kernel of this length reads for row r. */
// @ts-ignore: decorator
@inline
function rowBefore(x: usize, ldx: usize, state: usize, row: usize, r: usize, j: usize, length: usize): usize {
  return r + j + 1 < length ? state + (r + j) * row : x + (r + j + 1 - length) * ldx;
}

/**
 * `width` channels of the convolution of rows [from, to), with its bias and SiLU, to rows at `out`: taps `[length, channels]` of
 * a row and those before it, of which `state` `[length - 1, channels]` has those before the first; the bias follows the taps. x,
 * state and taps point at the first of these channels.
 */
export function convolveHead(x: usize, ldx: usize, from: usize, to: usize, out: usize, ldo: usize, width: usize, channels: usize, state: usize, taps: usize, length: usize): void {
  const row = channels << 2, end = width << 2, bias = taps + length * row;
  for (let r = from; r < to; r++, out += ldo) {
    let i: usize = 0;
    for (; i + 32 <= end; i += 32) {
      let a = f32x4.splat(0), b = a;
      for (let j: usize = 0, tap = taps + i; j < length; j++, tap += row) {
        const at = rowBefore(x, ldx, state, row, r, j, length) + i;
        a = f32x4.add(a, f32x4.mul(v128.load(tap), v128.load(at)));
        b = f32x4.add(b, f32x4.mul(v128.load(tap, 16), v128.load(at, 16)));
      }
      a = f32x4.add(a, v128.load(bias + i));
      b = f32x4.add(b, v128.load(bias + i, 16));
      a = f32x4.mul(a, plainSigmoid4(a));
      b = f32x4.mul(b, plainSigmoid4(b));
      v128.store(out + i, a);
      v128.store(out + i, b, 16);
    }
    for (; i < end; i += 16) {
      let a = f32x4.splat(0);
      for (let j: usize = 0, tap = taps + i; j < length; j++, tap += row)
        a = f32x4.add(a, f32x4.mul(v128.load(tap), v128.load(rowBefore(x, ldx, state, row, r, j, length) + i)));
      a = f32x4.add(a, v128.load(bias + i));
      v128.store(out + i, f32x4.mul(a, plainSigmoid4(a)));
    }
  }
}

/** The last rows become the columns of the state. */
export function keepColumns(x: usize, ldx: usize, rows: usize, width: usize, channels: usize, state: usize, length: usize): void {
  for (let j: usize = 0; j + 1 < length; j++)
    memory.copy(state + 4 * j * channels, rowBefore(x, ldx, state, 4 * channels, rows, j, length), 4 * width);
}

/** v of 32 channels becomes beta (v - decay S^T k), where rows of the memory at s are `ld` bytes apart. */
function correct32(s: usize, ld: usize, k: usize, v: usize, keyDim: usize, gate: usize): void {
  const none = zeros();
  let m0 = v128.load(none), m1 = v128.load(none, 16), m2 = m0, m3 = m1, m4 = m0, m5 = m1, m6 = m0, m7 = m1;
  const end = k + 4 * keyDim;
  for (let i = k, at = s; i < end; i += 4, at += ld) {
    const x = v128.load32_splat(i);
    m0 = fma(v128.load(at), x, m0); m1 = fma(v128.load(at, 16), x, m1);
    m2 = fma(v128.load(at, 32), x, m2); m3 = fma(v128.load(at, 48), x, m3);
    m4 = fma(v128.load(at, 64), x, m4); m5 = fma(v128.load(at, 80), x, m5);
    m6 = fma(v128.load(at, 96), x, m6); m7 = fma(v128.load(at, 112), x, m7);
  }
  const beta = v128.load32_splat(gate, 4), decay = v128.load32_splat(gate);
  v128.store(v, f32x4.mul(beta, f32x4.sub(v128.load(v), f32x4.mul(decay, m0))));
  v128.store(v, f32x4.mul(beta, f32x4.sub(v128.load(v, 16), f32x4.mul(decay, m1))), 16);
  v128.store(v, f32x4.mul(beta, f32x4.sub(v128.load(v, 32), f32x4.mul(decay, m2))), 32);
  v128.store(v, f32x4.mul(beta, f32x4.sub(v128.load(v, 48), f32x4.mul(decay, m3))), 48);
  v128.store(v, f32x4.mul(beta, f32x4.sub(v128.load(v, 64), f32x4.mul(decay, m4))), 64);
  v128.store(v, f32x4.mul(beta, f32x4.sub(v128.load(v, 80), f32x4.mul(decay, m5))), 80);
  v128.store(v, f32x4.mul(beta, f32x4.sub(v128.load(v, 96), f32x4.mul(decay, m6))), 96);
  v128.store(v, f32x4.mul(beta, f32x4.sub(v128.load(v, 112), f32x4.mul(decay, m7))), 112);
}

/** A row's step of 32 channels of a memory: S = decay S + k v^T, and o gets S^T q. */
function step32(s: usize, ld: usize, q: usize, k: usize, v: usize, keyDim: usize, gate: usize, o: usize): void {
  const none = zeros(), end = k + 4 * keyDim;
  const m0 = v128.load(v), m1 = v128.load(v, 16), m2 = v128.load(v, 32), m3 = v128.load(v, 48);
  const m4 = v128.load(v, 64), m5 = v128.load(v, 80), m6 = v128.load(v, 96), m7 = v128.load(v, 112);
  let o0 = v128.load(none), o1 = v128.load(none, 16), o2 = o0, o3 = o1, o4 = o0, o5 = o1, o6 = o0, o7 = o1;
  for (let i = k, at = s; i < end; i += 4, q += 4, at += ld) {
    const x = v128.load32_splat(i), y = v128.load32_splat(q), g = v128.load32_splat(gate);
    const s0 = fma(x, m0, f32x4.mul(g, v128.load(at))), s1 = fma(x, m1, f32x4.mul(g, v128.load(at, 16)));
    v128.store(at, s0); v128.store(at, s1, 16);
    const s2 = fma(x, m2, f32x4.mul(g, v128.load(at, 32))), s3 = fma(x, m3, f32x4.mul(g, v128.load(at, 48)));
    v128.store(at, s2, 32); v128.store(at, s3, 48);
    const s4 = fma(x, m4, f32x4.mul(g, v128.load(at, 64))), s5 = fma(x, m5, f32x4.mul(g, v128.load(at, 80)));
    v128.store(at, s4, 64); v128.store(at, s5, 80);
    const s6 = fma(x, m6, f32x4.mul(g, v128.load(at, 96))), s7 = fma(x, m7, f32x4.mul(g, v128.load(at, 112)));
    v128.store(at, s6, 96); v128.store(at, s7, 112);
    o0 = fma(s0, y, o0); o1 = fma(s1, y, o1);
    o2 = fma(s2, y, o2); o3 = fma(s3, y, o3);
    o4 = fma(s4, y, o4); o5 = fma(s5, y, o5);
    o6 = fma(s6, y, o6); o7 = fma(s7, y, o7);
  }
  v128.store(o, o0); v128.store(o, o1, 16);
  v128.store(o, o2, 32); v128.store(o, o3, 48);
  v128.store(o, o4, 64); v128.store(o, o5, 80);
  v128.store(o, o6, 96); v128.store(o, o7, 112);
}

/** The same of four channels. */
function correct4(s: usize, ld: usize, k: usize, v: usize, keyDim: usize, gate: usize): void {
  const g = v128.load32_splat(gate), beta = v128.load32_splat(gate, 4), end = k + 4 * keyDim;
  let m = f32x4.splat(0);
  for (let i = k, at = s; i < end; i += 4, at += ld) m = fma(v128.load(at), v128.load32_splat(i), m);
  v128.store(v, f32x4.mul(beta, f32x4.sub(v128.load(v), f32x4.mul(g, m))));
}
function step4(s: usize, ld: usize, q: usize, k: usize, v: usize, keyDim: usize, gate: usize, o: usize): void {
  const g = v128.load32_splat(gate), m = v128.load(v), end = k + 4 * keyDim;
  let read = f32x4.splat(0);
  for (let i = k, at = s; i < end; i += 4, q += 4, at += ld) {
    const next = fma(v128.load32_splat(i), m, f32x4.mul(g, v128.load(at)));
    v128.store(at, next);
    read = fma(next, v128.load32_splat(q), read);
  }
  v128.store(o, read);
}

/**
 * Rows' steps of a memory `[keyDim, valueDim]` at s: q and k of rows `ldk` bytes apart, v next to each other and overwritten, two
 * gates of each row, a line of scratch. corrects: v is told what the memory already gives for k.
 */
function remember(rows: usize, q: usize, k: usize, ldk: usize, v: usize, gates: usize, out: usize, ldo: usize, s: usize, keyDim: usize, valueDim: usize, line: usize, corrects: bool): void {
  const ld = 4 * valueDim;
  let c: usize = 0;
  for (; c + LINE <= valueDim; c += LINE) {
    const at = s + 4 * c;
    // many rows work on a copy: where they lie, the lines share few places of the first-level cache
    const moved = rows > 1, to = moved ? line : at, by = moved ? 4 * LINE : ld;
    if (moved) for (let i: usize = 0; i < keyDim; i++) memory.copy(line + 4 * LINE * i, at + ld * i, 4 * LINE);
    for (let r: usize = 0; r < rows; r++) {
      const change = v + r * ld + 4 * c;
      if (corrects) correct32(to, by, k + r * ldk, change, keyDim, gates + 8 * r);
      step32(to, by, q + r * ldk, k + r * ldk, change, keyDim, gates + 8 * r, out + r * ldo + 4 * c);
    }
    if (moved) for (let i: usize = 0; i < keyDim; i++) memory.copy(at + ld * i, line + 4 * LINE * i, 4 * LINE);
  }
  for (; c < valueDim; c += 4)
    for (let r: usize = 0; r < rows; r++) {
      const at = s + 4 * c, change = v + r * ld + 4 * c;
      if (corrects) correct4(at, ld, k + r * ldk, change, keyDim, gates + 8 * r);
      step4(at, ld, q + r * ldk, k + r * ldk, change, keyDim, gates + 8 * r, out + r * ldo + 4 * c);
    }
}

/** o / sqrt(mean of o² + eps) * gain * silu(z), in place. */
function finish(o: usize, z: usize, width: usize, gain: usize, eps: f32): void {
  let sum = f32x4.splat(0);
  for (let i: usize = 0; i < 4 * width; i += 16) sum = f32x4.add(sum, f32x4.mul(v128.load(o + i), v128.load(o + i)));
  const scale = f32x4.splat(<f32>1 / sqrt<f32>(sum4(sum) / <f32>width + eps));
  for (let i: usize = 0; i < 4 * width; i += 16) {
    const x = v128.load(z + i), y = f32x4.mul(f32x4.mul(v128.load(o + i), scale), v128.load(gain + i));
    v128.store(o + i, f32x4.mul(y, f32x4.mul(x, plainSigmoid4(x))));
  }
}

/**
 * A key head of rows `[q | k | v | z | b | a]`, one after the other, with the value heads that read it: every key head's
 * channels and memories are its own. state: columns `[length - 1, channels]`, then memories `[heads, keyDim, valueDim]`.
 * rule: decay and time bias of all heads, then the gain.
 */
export function deltaPiece(key: usize, rows: usize, x: usize, ldx: usize, out: usize, ldo: usize, keyHeads: usize, keyDim: usize, heads: usize, valueDim: usize, state: usize, taps: usize, length: usize, rule: usize, eps: f32, tiled: bool, scratch: usize): void {
  const keys = 4 * keyHeads * keyDim, channels = 2 * keyHeads * keyDim + heads * valueDim, group = heads / keyHeads;
  const z = x + 4 * channels, b = z + 4 * heads * valueDim, a = b + 4 * heads, memories = state + 4 * (length - 1) * channels;
  const q = scratch, k = q + 4 * SOME * keyDim, v = k + 4 * SOME * keyDim, gates = v + 4 * SOME * valueDim, line = gates + 8 * SOME;
  const qAt = 4 * key * keyDim, kAt = keys + qAt;
  for (let first: usize = 0; first < rows; first += SOME) {
    const to = min(first + SOME, rows), some = to - first;
    convolveHead(x + qAt, ldx, first, to, q, 4 * keyDim, keyDim, channels, state + qAt, taps + qAt, length);
    convolveHead(x + kAt, ldx, first, to, k, 4 * keyDim, keyDim, channels, state + kAt, taps + kAt, length);
    const by = <f32>(1 / sqrt<f64>(<f64>keyDim));
    for (let r: usize = 0; r < some; r++) {
      unit(q + 4 * r * keyDim, keyDim, by);
      unit(k + 4 * r * keyDim, keyDim, 1);
    }
    for (let i: usize = 0; i < group; i++) {
      const h = tiled ? key + i * keyHeads : key * group + i, vAt = 2 * keys + 4 * h * valueDim;
      convolveHead(x + vAt, ldx, first, to, v, 4 * valueDim, valueDim, channels, state + vAt, taps + vAt, length);
      // e^(decay softplus(a + bias)) and sigmoid(b)
      const decay = f32x4.splat(load<f32>(rule + 4 * h)), bias = load<f32>(rule + 4 * (heads + h)), at = first * ldx + 4 * h;
      for (let r: usize = 0; r < some; r++) {
        const time = plainSoftplus4(f32x4.splat(load<f32>(a + at + r * ldx) + bias));
        v128.store32_lane(gates + 8 * r, plainExp4(f32x4.mul(decay, time)), 0);
        v128.store32_lane(gates + 8 * r, plainSigmoid4(v128.load32_splat(b + at + r * ldx)), 0, 4);
      }
      const o = out + first * ldo + 4 * h * valueDim;
      remember(some, q, k, 4 * keyDim, v, gates, o, ldo, memories + 4 * h * keyDim * valueDim, keyDim, valueDim, line, true);
      for (let r: usize = 0; r < some; r++)
        finish(o + r * ldo, z + (first + r) * ldx + 4 * h * valueDim, valueDim, rule + 8 * heads, eps);
    }
  }
  keepColumns(x + qAt, ldx, rows, keyDim, channels, state + qAt, length);
  keepColumns(x + kAt, ldx, rows, keyDim, channels, state + kAt, length);
  for (let i: usize = 0; i < group; i++) {
    const vAt = 2 * keys + 4 * (tiled ? key + i * keyHeads : key * group + i) * valueDim;
    keepColumns(x + vAt, ldx, rows, valueDim, channels, state + vAt, length);
  }
}

/**
 * A head of rows `[z | x | B | C | dt]`, one after the other, whose `[x | B | C]` after the convolution is at `mixed`: every head's
 * memory, of `memories` `[heads, stateDim, headDim]`, is its own. rule: decay, time bias and skip of all heads.
 */
export function spacePiece(h: usize, rows: usize, x: usize, ldx: usize, mixed: usize, ldm: usize, out: usize, ldo: usize, heads: usize, headDim: usize, groups: usize, stateDim: usize, memories: usize, rule: usize, least: f32, most: f32, scratch: usize): void {
  const inner = heads * headDim, z = x + 4 * h * headDim, dt = x + 4 * (2 * inner + 2 * groups * stateDim + h), given = mixed + 4 * h * headDim;
  const B = mixed + 4 * (inner + h * groups / heads * stateDim), C = B + 4 * groups * stateDim, ldk = stateDim << 2, size = headDim << 2;
  const q = scratch, k = q + SOME * ldk, v = k + SOME * ldk, gates = v + SOME * size, line = gates + 8 * SOME;
  const decay = f32x4.splat(load<f32>(rule + 4 * h)), bias = load<f32>(rule + 4 * (heads + h)), skip = v128.load32_splat(rule + 4 * (2 * heads + h));
  for (let first: usize = 0; first < rows; first += SOME) {
    const some = min(SOME, rows - first), o = out + first * ldo + 4 * h * headDim;
    for (let r: usize = 0; r < some; r++) {
      const step = f32x4.splat(load<f32>(dt + (first + r) * ldx) + bias), own = given + (first + r) * ldm, to = v + r * size;
      const time = f32x4.min(f32x4.max(plainSoftplus4(step), f32x4.splat(least)), f32x4.splat(most));
      v128.store32_lane(gates + 8 * r, plainExp4(f32x4.mul(decay, time)), 0);
      for (let i: usize = 0; i < size; i += 16) v128.store(to + i, f32x4.mul(time, v128.load(own + i)));
      // next to each other: where they lie, rows share few places of the first-level cache
      memory.copy(k + r * ldk, B + (first + r) * ldm, ldk);
      memory.copy(q + r * ldk, C + (first + r) * ldm, ldk);
    }
    remember(some, q, k, ldk, v, gates, o, ldo, memories + 4 * h * stateDim * headDim, stateDim, headDim, line, false);
    for (let r: usize = 0; r < some; r++) {
      const y = o + r * ldo, own = given + (first + r) * ldm, gate = z + (first + r) * ldx;
      for (let i: usize = 0; i < size; i += 16) {
        const sum = f32x4.add(v128.load(y + i), f32x4.mul(skip, v128.load(own + i))), g = v128.load(gate + i);
        v128.store(y + i, f32x4.mul(sum, f32x4.mul(g, plainSigmoid4(g))));
      }
    }
  }
}

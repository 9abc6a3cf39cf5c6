// @ts-nocheck: AssemblyScript, not TypeScript
// The gated delta rule, to the bit that of @kv/engine's gatedDelta: nothing is fused, and sums have its order. Heads are
// multiples of four numbers wide.

import { plainExp4, plainSigmoid4, plainSoftplus4, sum4 } from "./forms";

/** x / sqrt(sum of x² + 1e-6), times `by`, in place. */
function unit(x: usize, width: usize, by: f32): void {
  let sum = f32x4.splat(0);
  for (let i = x; i < x + 4 * width; i += 16) sum = f32x4.add(sum, f32x4.mul(v128.load(i), v128.load(i)));
  const scale = f32x4.splat((<f32>1 / sqrt<f32>(sum4(sum) + <f32>1e-6)) * by);
  for (let i = x; i < x + 4 * width; i += 16) v128.store(i, f32x4.mul(v128.load(i), scale));
}

/**
 * Channels [from, from + width) of rows' convolution and its SiLU: taps `[length, channels]` of a row and those before it,
 * of which `state` `[length - 1, channels]` has the last; it has those of the last rows then. With `by` other than 0 the
 * channels are a head of q or k, which is normed and multiplied by it.
 */
function convolveHead(x: usize, ldx: usize, rows: usize, out: usize, ldo: usize, channels: usize, state: usize, taps: usize, length: usize, from: usize, width: usize, by: f32): void {
  const row = channels << 2, last = (length - 1) * row, start = from << 2, end = start + (width << 2);
  for (let r: usize = 0; r < rows; r++, x += ldx, out += ldo) {
    for (let i = start; i < end; i += 16) {
      let sum = f32x4.splat(0);
      for (let j = i; j < last + i; j += row) sum = f32x4.add(sum, f32x4.mul(v128.load(taps + j), v128.load(state + j)));
      sum = f32x4.add(sum, f32x4.mul(v128.load(taps + last + i), v128.load(x + i)));
      v128.store(out + i, f32x4.mul(sum, plainSigmoid4(sum)));
      if (last == 0) continue;
      for (let j = i; j + row < last + i; j += row) v128.store(state + j, v128.load(state + j + row));
      v128.store(state + last - row + i, v128.load(x + i));
    }
    if (by != 0) unit(out + start, width, by);
  }
}

/** Piece of the convolution of rows `[q | k | v]`: a head of q, of k or of v. */
export function convolvePiece(piece: usize, x: usize, ldx: usize, rows: usize, out: usize, ldo: usize, keyHeads: usize, keyDim: usize, channels: usize, valueDim: usize, state: usize, taps: usize, length: usize): void {
  const keys: usize = 2 * keyHeads, key = piece < keys;
  const by: f32 = !key ? 0 : piece < keyHeads ? <f32>(1 / sqrt<f64>(<f64>keyDim)) : 1;
  convolveHead(x, ldx, rows, out, ldo, channels, state, taps, length,
    key ? piece * keyDim : keys * keyDim + (piece - keys) * valueDim, key ? keyDim : valueDim, by);
}

/** Channels of a memory that are worked on together: a line. */
const LINE: usize = 16;

/** Four of each row's results of a token: `s` of the decayed memory, corrected by k times d; read by q. */
// @ts-ignore: decorator
@inline
function corrected(s: usize, g: v128, k: v128, d: v128): v128 {
  const next = f32x4.add(f32x4.mul(g, v128.load(s)), f32x4.mul(k, d));
  v128.store(s, next);
  return next;
}

/** A token's step of `wide` (16 or fewer) channels of a memory, at s, rows of `ld` bytes: o gets S^T q. */
function step16(s: usize, ld: usize, q: usize, k: usize, v: usize, keyDim: usize, g: v128, beta: v128, o: usize): void {
  let m0 = f32x4.splat(0), m1 = m0, m2 = m0, m3 = m0;
  const end = k + 4 * keyDim;
  for (let i = k, at = s; i < end; i += 4, at += ld) {
    const x = v128.load32_splat(i);
    m0 = f32x4.add(m0, f32x4.mul(v128.load(at), x));
    m1 = f32x4.add(m1, f32x4.mul(v128.load(at, 16), x));
    m2 = f32x4.add(m2, f32x4.mul(v128.load(at, 32), x));
    m3 = f32x4.add(m3, f32x4.mul(v128.load(at, 48), x));
  }
  m0 = f32x4.mul(beta, f32x4.sub(v128.load(v), f32x4.mul(g, m0)));
  m1 = f32x4.mul(beta, f32x4.sub(v128.load(v, 16), f32x4.mul(g, m1)));
  m2 = f32x4.mul(beta, f32x4.sub(v128.load(v, 32), f32x4.mul(g, m2)));
  m3 = f32x4.mul(beta, f32x4.sub(v128.load(v, 48), f32x4.mul(g, m3)));
  let o0 = f32x4.splat(0), o1 = o0, o2 = o0, o3 = o0;
  for (let i = k, at = s; i < end; i += 4, q += 4, at += ld) {
    const x = v128.load32_splat(i), y = v128.load32_splat(q);
    o0 = f32x4.add(o0, f32x4.mul(corrected(at, g, x, m0), y));
    o1 = f32x4.add(o1, f32x4.mul(corrected(at + 16, g, x, m1), y));
    o2 = f32x4.add(o2, f32x4.mul(corrected(at + 32, g, x, m2), y));
    o3 = f32x4.add(o3, f32x4.mul(corrected(at + 48, g, x, m3), y));
  }
  v128.store(o, o0);
  v128.store(o, o1, 16);
  v128.store(o, o2, 32);
  v128.store(o, o3, 48);
}

/** The same of four channels. */
function step4(s: usize, ld: usize, q: usize, k: usize, v: usize, keyDim: usize, g: v128, beta: v128, o: usize): void {
  let m = f32x4.splat(0), read = m;
  const end = k + 4 * keyDim;
  for (let i = k, at = s; i < end; i += 4, at += ld) m = f32x4.add(m, f32x4.mul(v128.load(at), v128.load32_splat(i)));
  m = f32x4.mul(beta, f32x4.sub(v128.load(v), f32x4.mul(g, m)));
  for (let i = k, at = s; i < end; i += 4, q += 4, at += ld)
    read = f32x4.add(read, f32x4.mul(corrected(at, g, v128.load32_splat(i), m), v128.load32_splat(q)));
  v128.store(o, read);
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
 * Value head h of rows, which change its memory `[keyDim, valueDim]` at s one after the other. q, k, v: its channels of the
 * first row after the convolution, rows `ldx` bytes apart; z, b and a: of the projection, `ldp` apart. rule: decay and time bias
 * of all heads, then the gain. `line` holds some channels of the memory of many rows.
 */
export function deltaHead(h: usize, rows: usize, q: usize, k: usize, v: usize, ldx: usize, z: usize, b: usize, a: usize, ldp: usize, out: usize, ldo: usize, s: usize, heads: usize, keyDim: usize, valueDim: usize, rule: usize, eps: f32, line: usize): void {
  const decay = load<f32>(rule + 4 * h), bias = load<f32>(rule + 4 * (heads + h)), gain = rule + 8 * heads, ld = 4 * valueDim;
  // e^(decay softplus(a + bias)) and sigmoid(b) of every row
  const gates = line + 64 * keyDim;
  for (let r: usize = 0; r < rows; r++) {
    const time = plainSoftplus4(f32x4.splat(load<f32>(a + r * ldp) + bias));
    v128.store(gates + 32 * r, plainExp4(f32x4.mul(f32x4.splat(decay), time)));
    v128.store(gates + 32 * r, plainSigmoid4(v128.load32_splat(b + r * ldp)), 16);
  }
  let c: usize = 0;
  for (; c + LINE <= valueDim; c += LINE) {
    const at = s + 4 * c;
    // in the first-level cache for many rows: where it lies, its lines share few places there
    const moved = rows > 1, to = moved ? line : at, by: usize = moved ? 64 : ld;
    if (moved) for (let i: usize = 0; i < keyDim; i++) memory.copy(line + 64 * i, at + ld * i, 64);
    for (let r: usize = 0; r < rows; r++)
      step16(to, by, q + r * ldx, k + r * ldx, v + r * ldx + 4 * c, keyDim, v128.load(gates + 32 * r), v128.load(gates + 32 * r, 16), out + r * ldo + 4 * c);
    if (moved) for (let i: usize = 0; i < keyDim; i++) memory.copy(at + ld * i, line + 64 * i, 64);
  }
  for (; c < valueDim; c += 4)
    for (let r: usize = 0; r < rows; r++)
      step4(s + 4 * c, ld, q + r * ldx, k + r * ldx, v + r * ldx + 4 * c, keyDim, v128.load(gates + 32 * r), v128.load(gates + 32 * r, 16), out + r * ldo + 4 * c);
  for (let r: usize = 0; r < rows; r++) finish(out + r * ldo, z + r * ldp, valueDim, gain, eps);
}

/** Bytes of `line`, for so many rows. */
export function lineBytes(keyDim: usize, rows: usize): usize {
  return 64 * keyDim + 32 * rows;
}

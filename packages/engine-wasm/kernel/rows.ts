// @ts-nocheck: AssemblyScript, not TypeScript
// What happens to rows between products. Rows have room up to a multiple of four numbers.

import { fma, plainSigmoid4, sigmoid4, sum4, tanh4 } from "./forms";

/** out = x / sqrt(mean(x²) + eps) * gain, for every `run` numbers of `width`; there are `gains` of one run, or of the width. */
export function norm(x: usize, out: usize, width: usize, run: usize, gain: usize, gains: usize, eps: f32): void {
  const whole = (run & ~3) << 2, size = run << 2, step = gains > run ? size : 0;
  for (let end = x + 4 * width; x < end; x += size, out += size, gain += step) {
    let a = f32x4.splat(0), b = a, i: usize = 0;
    for (; i + 32 <= whole; i += 32) {
      const v = v128.load(x + i), w = v128.load(x + i, 16);
      a = fma(v, v, a);
      b = fma(w, w, b);
    }
    for (; i < whole; i += 16) a = fma(v128.load(x + i), v128.load(x + i), a);
    let sum = sum4(f32x4.add(a, b));
    for (; i < size; i += 4) sum += load<f32>(x + i) * load<f32>(x + i);
    const scale: f32 = 1 / sqrt<f32>(sum / <f32>run + eps), s = f32x4.splat(scale);
    for (i = 0; i < whole; i += 16) v128.store(out + i, f32x4.mul(f32x4.mul(v128.load(x + i), s), v128.load(gain + i)));
    for (; i < size; i += 4) store<f32>(out + i, load<f32>(x + i) * scale * load<f32>(gain + i));
  }
}

/** out = x + y */
export function add(x: usize, y: usize, out: usize, width: usize): void {
  for (let i: usize = 0; i < width << 2; i += 16) v128.store(out + i, f32x4.add(v128.load(x + i), v128.load(y + i)));
}

export function copy(x: usize, out: usize, width: usize): void {
  memory.copy(out, x, 4 * width);
}

/** Pairs (i, i + rotary / 2) of every head turned by the angles of cos and sin `[rotary / 2]`, the rest copied; then all of it times `by`. */
export function rope(x: usize, out: usize, heads: usize, headDim: usize, rotary: usize, cos: usize, sin: usize, by: f32): void {
  const half = rotary << 1, first = out, width = heads * headDim;
  for (let h: usize = 0; h < heads; h++, x += 4 * headDim, out += 4 * headDim) {
    let i: usize = 0;
    for (; i + 16 <= half; i += 16) {
      const a = v128.load(x + i), b = v128.load(x + half + i), c = v128.load(cos + i), s = v128.load(sin + i);
      v128.store(out + i, f32x4.sub(f32x4.mul(a, c), f32x4.mul(b, s)));
      v128.store(out + half + i, f32x4.add(f32x4.mul(b, c), f32x4.mul(a, s)));
    }
    for (; i < half; i += 4) {
      const a = load<f32>(x + i), b = load<f32>(x + half + i), c = load<f32>(cos + i), s = load<f32>(sin + i);
      store<f32>(out + i, a * c - b * s);
      store<f32>(out + half + i, b * c + a * s);
    }
    if (rotary < headDim) memory.copy(out + 2 * half, x + 2 * half, 4 * (headDim - rotary));
  }
  if (by != 1) scale(first, first, width, by);
}

/**
 * Channels [from, to) of a token's gated short convolution, rows `[B | C | u]`: C times the sum of taps `[length, channels]`
 * times z, which is B u of the token and, in `state` `[length - 1, channels]`, of those before it; its own z joins them. `from`
 * is a multiple of four. Every product and sum is rounded, in the order of @kv/engine's shortConvolution.
 */
export function convolve(x: usize, out: usize, channels: usize, state: usize, taps: usize, length: usize, bias: usize, from: usize, to: usize): void {
  const row = channels << 2, last = (length - 1) * row, end = min(to, channels) << 2;
  let i = from << 2;
  for (; i + 16 <= end; i += 16) {
    const z = f32x4.mul(v128.load(x + i), v128.load(x + 2 * row + i));
    let sum = f32x4.splat(0);
    for (let j = i; j < last + i; j += row) sum = f32x4.add(sum, f32x4.mul(v128.load(taps + j), v128.load(state + j)));
    sum = f32x4.add(sum, f32x4.mul(v128.load(taps + last + i), z));
    v128.store(out + i, f32x4.mul(v128.load(x + row + i), f32x4.add(sum, v128.load(bias + i))));
    if (last == 0) continue;
    for (let j = i; j + row < last + i; j += row) v128.store(state + j, v128.load(state + j + row));
    v128.store(state + last - row + i, z);
  }
  for (; i < end; i += 4) {
    const z = load<f32>(x + i) * load<f32>(x + 2 * row + i);
    let sum: f32 = 0;
    for (let j = i; j < last + i; j += row) sum += load<f32>(taps + j) * load<f32>(state + j);
    sum += load<f32>(taps + last + i) * z;
    store<f32>(out + i, load<f32>(x + row + i) * (sum + load<f32>(bias + i)));
    if (last == 0) continue;
    for (let j = i; j + row < last + i; j += row) store<f32>(state + j, load<f32>(state + j + row));
    store<f32>(state + last - row + i, z);
  }
}

export const SILU: usize = 0, SIGMOID: usize = 2, CLAMPED: usize = 3;

/** Four numbers silu(gate) * up. */
// @ts-ignore: decorator
@inline
function silu(gates: usize, ups: usize): v128 {
  const x = v128.load(gates);
  return f32x4.mul(f32x4.mul(x, sigmoid4(x)), v128.load(ups));
}

/** out = activation(gate) * up; out may be either of them. The sigmoid is that of @kv/engine's gateOutputs, to the bit. */
export function gate(how: usize, gates: usize, ups: usize, out: usize, width: usize): void {
  const end = width << 2;
  if (how == SILU) {
    let i: usize = 0;
    for (; i + 32 <= end; i += 32) {
      const a = silu(gates + i, ups + i), b = silu(gates + i + 16, ups + i + 16);
      v128.store(out + i, a);
      v128.store(out + i, b, 16);
    }
    for (; i < end; i += 16) v128.store(out + i, silu(gates + i, ups + i));
  } else if (how == SIGMOID) {
    for (let i: usize = 0; i < end; i += 16)
      v128.store(out + i, f32x4.mul(v128.load(ups + i), plainSigmoid4(v128.load(gates + i))));
  } else if (how == CLAMPED) {
    // (up + 1) gate sigmoid(1.702 gate), with gate at most 7 and up from -7 to 7
    const seven = f32x4.splat(7), least = f32x4.splat(-7), one = f32x4.splat(1), by = f32x4.splat(1.702);
    for (let i: usize = 0; i < end; i += 16) {
      const x = f32x4.min(v128.load(gates + i), seven), up = f32x4.min(f32x4.max(v128.load(ups + i), least), seven);
      v128.store(out + i, f32x4.mul(f32x4.mul(x, sigmoid4(f32x4.mul(x, by))), f32x4.add(up, one)));
    }
  } else {
    // x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x³))) = x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x³))
    for (let i: usize = 0; i < end; i += 16) {
      const x = v128.load(gates + i), cube = f32x4.mul(f32x4.mul(x, x), x);
      const y = f32x4.mul(fma(cube, f32x4.splat(0.044715), x), f32x4.splat(1.5957691216057308));
      v128.store(out + i, f32x4.mul(f32x4.mul(x, sigmoid4(y)), v128.load(ups + i)));
    }
  }
}

/** out = x * the sigmoid of the gate of each run of `run` numbers, a whole number of runs, to the bit as `gate` has it. */
export function gateRuns(gates: usize, x: usize, out: usize, width: usize, run: usize): void {
  const size = run << 2;
  for (let end = x + 4 * width; x < end; x += size, out += size, gates += 4) {
    const by = f32x4.extract_lane(plainSigmoid4(f32x4.splat(load<f32>(gates))), 0), f = f32x4.splat(by);
    let i: usize = 0;
    for (; i + 16 <= size; i += 16) v128.store(out + i, f32x4.mul(v128.load(x + i), f));
    for (; i < size; i += 4) store<f32>(out + i, load<f32>(x + i) * by);
  }
}

/** out = x * by */
export function scale(x: usize, out: usize, width: usize, by: f32): void {
  const f = f32x4.splat(by);
  for (let i: usize = 0; i < width << 2; i += 16) v128.store(out + i, f32x4.mul(v128.load(x + i), f));
}

/** out = cap * tanh(x / cap) */
export function softcap(x: usize, out: usize, width: usize, cap: f32): void {
  const c = f32x4.splat(cap), inverse = f32x4.splat(1 / cap);
  for (let i: usize = 0; i < width << 2; i += 16)
    v128.store(out + i, f32x4.mul(tanh4(f32x4.mul(v128.load(x + i), inverse)), c));
}

import { kernel } from '../tensor/kernel.ts';
import type { Ops } from '../tensor/maths.ts';
import { range } from '../tensor/range.ts';
import type { Rope } from './signals.ts';
import type { Tensor } from '../tensor/tensor.ts';

/**
 * Rotates vectors by rotary position embedding, or back: x `[r, n, d]` by row `index[r', i]` of cos and sin
 * `[1, N, half]`; channels from 2 half on are unchanged.
 */
export const rotateKernel = kernel({
  id: 'turned',
  inputs: { x: 'f32', cos: 'f32', sin: 'f32', index: 'u32' },
  params: { back: 'u32' },
  ragged: 'x',
  output: { shape: ({ x }) => x },
  wgsl: /* wgsl */ `
fn run(index_: u32) {
  let n = x_shape.y; let d = x_shape.z; let half = cos_shape.z;
  let c = index_ % d; let slot = index_ / d; let i = slot % n; let r = slot / n;
  output[index_] = x[index_];
  if (c >= 2u * half) { return; }
  let row = r / (x_shape.x / index_shape.x);
  let at = min(index[row * index_shape.y + i % index_shape.y], cos_shape.y - 1u) * half + c % half;
  let co = cos[at]; let si = sin[at];
  let a = x[slot * d + c % half]; let b = x[slot * d + half + c % half];
  let size = max(co * co + si * si, 1e-30);
  if (params.back == 1u) { output[index_] = select(b * co - a * si, a * co + b * si, c < half) / size; }
  else { output[index_] = select(b * co + a * si, a * co - b * si, c < half); }
}`,
  ref: (inputs, { back }, out) => rotateVectors(inputs, back !== 0, out),
});

type Turned = Parameters<typeof rotateKernel.ref>[0];
/** Rotates vectors as `rotateKernel` does, on the host, to `out`. */
export function rotateVectors({ x, cos, sin, index }: Turned, back: boolean, out: Float32Array | Uint32Array): void {
  const [r = 0, n = 0, d = 0] = x.shape,
    [, N = 1, half = 0] = cos.shape,
    [rows = 1, width = 1] = index.shape;
  out.set(x.data);
  for (let h = 0; h < r; h++)
    for (let i = 0; i < n; i++) {
      const at = Math.min(index.data[Math.floor((h * rows) / r) * width + (i % width)], N - 1) * half,
        from = (h * n + i) * d;
      for (let c = 0; c < half; c++) {
        const a = x.data[from + c],
          b = x.data[from + half + c],
          co = cos.data[at + c],
          si = sin.data[at + c],
          size = Math.max(co * co + si * si, 1e-30);
        out[from + c] = back ? (a * co + b * si) / size : a * co - b * si;
        out[from + half + c] = back ? (b * co - a * si) / size : b * co + a * si;
      }
    }
}

/**
 * Returns x `[r, n, d]` rotated to other positions, or as it was before rotary position embedding (`back`): `index` u32
 * `[r', n]` selects rows of the angles of `positions`. A model without rotary channels leaves x unchanged.
 */
export function turn(
  ops: Ops,
  x: Tensor,
  { rotary, angles }: Rope,
  positions: Uint32Array,
  index: Tensor,
  back: boolean,
): Tensor {
  if (rotary === 0) return x;
  const { cos, sin } = angles(positions),
    shape = [1, positions.length, rotary / 2];
  return ops.kernel(
    rotateKernel,
    { x, cos: ops.from({ data: cos, shape }), sin: ops.from({ data: sin, shape }), index },
    { back: back ? 1 : 0 },
  );
}

/** Returns keys `[G, n, d]` before their rotation. @param positions of the slots, u32 `[G, n]`, below `length` */
export function keysBeforeRotation(ops: Ops, keys: Tensor, rope: Rope, positions: Tensor, length: number): Tensor {
  const { positions: table = range(0, length), index = positions } = rope.moved ?? {};
  return turn(ops, keys, rope, table, index, true);
}

/**
 * Turns the last w queries `[H, w, d]` of a sequence of `length` tokens, which stand at length - w .. length - 1, to length ..
 * length + w - 1, where the answer will stand.
 */
export function turnAhead(ops: Ops, queries: Tensor, rope: Rope, length: number): Tensor {
  const [, w = 0] = queries.shape,
    each = ops.from({ data: range(0, w), shape: [1, w] }, 'u32'),
    before = turn(ops, queries, rope, range(Math.max(0, length - w), w), each, true);
  return turn(ops, before, rope, range(length, w), each, false);
}

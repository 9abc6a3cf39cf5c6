import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { dispatch } from './kernel.ts';
import { add } from './kernels/add.wgsl.ts';
import { argmax } from './kernels/argmax.wgsl.ts';
import { compact, COMPACT_CHANNELS } from './kernels/compact.wgsl.ts';
import { embedding } from './kernels/embedding.wgsl.ts';
import { gated } from './kernels/gated.wgsl.ts';
import { heads } from './kernels/heads.wgsl.ts';
import { rmsNorm } from './kernels/rms-norm.wgsl.ts';
import { softcap } from './kernels/softcap.wgsl.ts';
import { rowsOf, type RowView } from './rows.ts';
import type { DeviceMatrix } from './weights/device-matrix.ts';
import { octetsOf } from './weights/repack.ts';

/** Angles of rows' positions on the device, cos and sin `[m, rotary / 2]`. */
export interface DeviceAngles {
  readonly rotary: number;
  readonly cos: Tensor;
  readonly sin: Tensor;
}

/** New rows `[m, width]`. */
const fresh = (commands: Commands, m: number, width: number): RowView => rowsOf(commands.make([m, width]), width);
const at = ({ at, stride }: RowView): { readonly x_at: number; readonly x_stride: number } => ({ x_at: at, x_stride: stride });

/** Records embedding rows of `ids [m]` (u32, below the vocabulary), times `scale`. */
export function encodeEmbedding(commands: Commands, ids: Tensor, m: number, { inputs: width, parts }: DeviceMatrix, scale: number): RowView {
  const out = fresh(commands, m, width), octets = octetsOf(width);
  for (const { form, from, rows, weights, scales } of parts) dispatch(commands, embedding(form), { ids, weights, scales, out: out.tensor }, { octets, width, first: from, rows, scale }, m * octets);
  return out;
}

/** Records the RMS normalisation of every run of `gain [size]` numbers of m rows. */
export function encodeNorm(commands: Commands, x: RowView, m: number, gain: Tensor, eps: number): RowView {
  const out = fresh(commands, m, x.width), size = gain.shape[0]!, runs = x.width / size;
  dispatch(commands, rmsNorm, { x: x.tensor, gain, out: out.tensor }, { ...at(x), runs, size, eps }, m * runs);
  return out;
}

/** Records rows as heads of `size`, turned if there are angles: `[m, H * size]`, or `[H, m, size]`. */
export function encodeHeads(commands: Commands, x: RowView, m: number, size: number, layout: 'rows' | 'heads', angles?: DeviceAngles): RowView {
  const { width } = x, count = width / size, out = commands.make(layout === 'rows' ? [m, width] : [count, m, size]);
  const [head_step, row_step] = layout === 'rows' ? [size, width] : [m * size, size];
  dispatch(commands, heads(angles !== undefined), { x: x.tensor, cosines: angles?.cos, sines: angles?.sin, out }, { ...at(x), heads: count, size, rotary: angles?.rotary ?? 0, head_step, row_step }, m * width);
  return rowsOf(out, width);
}

/** Records `activation(gate) * up` of rows `[gate | up]`. */
export function encodeGated(commands: Commands, x: RowView, m: number, activation: 'silu' | 'gelu'): RowView {
  const width = x.width / 2, out = fresh(commands, m, width);
  dispatch(commands, gated(activation), { x: x.tensor, out: out.tensor }, { ...at(x), width }, m * width);
  return out;
}

/** Records x + y. */
export function encodeAdd(commands: Commands, x: RowView, y: RowView, m: number): RowView {
  const { width } = x, out = fresh(commands, m, width);
  dispatch(commands, add, { x: x.tensor, y: y.tensor, out: out.tensor }, { ...at(x), y_at: y.at, y_stride: y.stride, width }, m * width);
  return out;
}

/** Records `cap * tanh(x / cap)`. */
export function encodeSoftcap(commands: Commands, x: RowView, m: number, cap: number): RowView {
  const { width } = x, out = fresh(commands, m, width);
  dispatch(commands, softcap, { x: x.tensor, out: out.tensor }, { ...at(x), width, cap }, m * width);
  return out;
}

/** Records where the largest number of each of m rows stands, u32 `[m]`; ties go to the lower place. */
export function encodeArgmax(commands: Commands, x: RowView, m: number): Tensor {
  const out = commands.make([m], 'u32');
  dispatch(commands, argmax, { x: x.tensor, out }, { ...at(x), width: x.width }, m);
  return out;
}

/**
 * Records the compaction of `data [rows, capacity, ...channels]`, in place, to the slots `kept [kept rows, stride]` of which `counts [kept rows]` are valid;
 * several rows may share one of `kept`. Slots ascend and lie below `capacity`.
 */
export function encodeCompact(commands: Commands, data: Tensor, kept: Tensor, counts: Tensor): void {
  const [rows = 1, capacity = 1, ...rest] = data.shape, channels = rest.reduce((a, b) => a * b, 1), [keptRows = 1, stride = 1] = kept.shape;
  dispatch(commands, compact, { kept, counts, data }, { capacity, channels, stride, group: rows / keptRows }, rows * Math.ceil(channels / COMPACT_CHANNELS));
}

import { sizeOf } from '@kv/core/engine';
import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import type { ExpertActivation } from '@kv/checkpoints';
import type { DeltaRule, OutputNorm, RowForm, SpaceRule } from '@kv/engine';
import { dispatch } from '@kv/gpu';
import { add } from './kernels/add.wgsl.ts';
import { append } from './kernels/append.wgsl.ts';
import { argmax } from './kernels/argmax.wgsl.ts';
import { compact, COMPACT_CHANNELS, gather } from './kernels/compact.wgsl.ts';
import { convolution } from './kernels/convolution.wgsl.ts';
import { embedding } from './kernels/embedding.wgsl.ts';
import { gatedDelta } from './kernels/gated-delta.wgsl.ts';
import type { CausalKernel } from './wgsl/causal-sum.ts';
import { memoryColumns } from './kernels/memory-columns.wgsl.ts';
import { stateSpace } from './kernels/state-space.wgsl.ts';
import { gatedKernel } from './kernels/gated.wgsl.ts';
import { gatedRows } from './kernels/gated-rows.wgsl.ts';
import { heads } from './kernels/heads.wgsl.ts';
import { moveRecords, NO_SLOT } from './kernels/records.wgsl.ts';
import { convert, decode, replace } from './kernels/rows.wgsl.ts';
import { outputGate } from './kernels/output-gate.wgsl.ts';
import { outputNorms, outputSlots } from './kernels/output-norms.wgsl.ts';
import { rmsNorm } from './kernels/rms-norm.wgsl.ts';
import { scale } from './kernels/scale.wgsl.ts';
import { rest, slots } from './kernels/slots.wgsl.ts';
import { softcap } from './kernels/softcap.wgsl.ts';
import { columns, readRows, rowsOf, type DeviceRowView } from './rows.ts';
import type { DeviceMatrix } from './weights/device-matrix.ts';
import { octetsOf } from './weights/repack.ts';
import { deviceForms, WORD_NUMBERS, type DeviceForm, type DeviceRowForm } from './wgsl/stored-rows.ts';

/** Angles of rows' positions on the device, cos and sin `[m, rotary / 2]`. */
export interface DeviceAngles {
  readonly rotary: number;
  readonly cos: Tensor;
  readonly sin: Tensor;
  /** What rows' queries are multiplied by, `[m]`; absent where all are 1. */
  readonly scales?: Tensor;
}

/** Allocates rows `[m, width]`. */
const fresh = (commands: Commands, m: number, width: number): DeviceRowView => rowsOf(commands.make([m, width]), width);
const at = ({ at, stride }: DeviceRowView): { readonly x_at: number; readonly x_stride: number } => ({
  x_at: at,
  x_stride: stride,
});

/** Returns a view of the first slots of `x [rows, capacity, ...channels]`: only these are read or written. */
export const firstSlots = (x: Tensor, slots: number): Tensor => ({
  ...x,
  shape: [x.shape[0] ?? 1, slots, ...x.shape.slice(2)],
});

/** Records embedding rows of `ids [m]` (u32, below the vocabulary), times `scale`. */
export function encodeEmbedding(
  commands: Commands,
  ids: Tensor,
  m: number,
  { inputs: width, parts }: DeviceMatrix,
  scale: number,
): DeviceRowView {
  const out = fresh(commands, m, width),
    octets = octetsOf(width);
  for (const { form, from, rows, weights, scales } of parts)
    dispatch(
      commands,
      embedding(form),
      { ids, weights, scales, out: out.tensor },
      { octets, width, first: from, rows, scale },
      m * octets,
      { again: (m / rows - 1) * 4 * (sizeOf(weights.shape) + (scales ? sizeOf(scales.shape) : 0)) },
    );
  return out;
}

/** Records the RMS normalisation of every run of `size` numbers of m rows; `gain` is of one run, or of those of a row. */
export function encodeNorm(
  commands: Commands,
  x: DeviceRowView,
  m: number,
  gain: Tensor,
  eps: number,
  size: number = gain.shape[0],
): DeviceRowView {
  const out = fresh(commands, m, x.width),
    runs = x.width / size,
    gains = gain.shape[0];
  dispatch(
    commands,
    rmsNorm,
    { x: readRows(x, m), gain, out: out.tensor },
    { ...at(x), runs, size, gains, eps },
    m * runs,
  );
  return out;
}

/** Records rows as heads of `size`, rotated if there are angles, and multiplied by their scales: `[m, H * size]`, or `[H, m, size]`. */
export function encodeHeads(
  commands: Commands,
  x: DeviceRowView,
  m: number,
  size: number,
  layout: 'rows' | 'heads',
  angles?: DeviceAngles,
): DeviceRowView {
  const { width } = x,
    count = width / size,
    out = commands.make(layout === 'rows' ? [m, width] : [count, m, size]);
  const [head_step, row_step] = layout === 'rows' ? [size, width] : [m * size, size];
  dispatch(
    commands,
    heads(angles !== undefined, angles?.scales !== undefined),
    { x: readRows(x, m), cosines: angles?.cos, sines: angles?.sin, scales: angles?.scales, out },
    { ...at(x), heads: count, size, rotary: angles?.rotary ?? 0, head_step, row_step },
    m * width,
  );
  return rowsOf(out, width);
}

/** Records `activation(gate) * up`; both may be columns of the same rows. */
export function encodeGated(
  commands: Commands,
  gate: DeviceRowView,
  up: DeviceRowView,
  m: number,
  activation: ExpertActivation,
): DeviceRowView {
  const { width } = gate,
    out = fresh(commands, m, width),
    apart = gate.tensor !== up.tensor;
  dispatch(
    commands,
    gatedKernel(activation, apart),
    {
      x: apart
        ? readRows(gate, m)
        : firstSlots(
            { ...gate.tensor, shape: [m, 2 * width] },
            Math.min(2 * width, sizeOf(gate.tensor.shape) / Math.max(1, m)),
          ),
      ups: apart ? readRows(up, m) : undefined,
      out: out.tensor,
    },
    { ...at(gate), up_at: up.at, up_stride: up.stride, width },
    m * width,
  );
  return out;
}

/** Records each row of x times the sigmoid of its gate. */
export function encodeGatedRows(commands: Commands, x: DeviceRowView, gate: DeviceRowView, m: number): DeviceRowView {
  const { width } = x,
    out = fresh(commands, m, width);
  dispatch(
    commands,
    gatedRows,
    { x: readRows(x, m), gate: readRows(gate, m), out: out.tensor },
    { ...at(x), gate_at: gate.at, gate_stride: gate.stride, width },
    m * width,
  );
  return out;
}

/** Records x + y. */
export function encodeAdd(commands: Commands, x: DeviceRowView, y: DeviceRowView, m: number): DeviceRowView {
  const { width } = x,
    out = fresh(commands, m, width);
  dispatch(
    commands,
    add,
    { x: readRows(x, m), y: readRows(y, m), out: out.tensor },
    { ...at(x), y_at: y.at, y_stride: y.stride, width },
    m * width,
  );
  return out;
}

/** Records `x * by`. */
export function encodeScale(commands: Commands, x: DeviceRowView, m: number, by: number): DeviceRowView {
  const { width } = x,
    out = fresh(commands, m, width);
  dispatch(commands, scale, { x: readRows(x, m), out: out.tensor }, { ...at(x), width, by }, m * width);
  return out;
}

/** Records `cap * tanh(x / cap)`. */
export function encodeSoftcap(commands: Commands, x: DeviceRowView, m: number, cap: number): DeviceRowView {
  const { width } = x,
    out = fresh(commands, m, width);
  dispatch(commands, softcap, { x: readRows(x, m), out: out.tensor }, { ...at(x), width, cap }, m * width);
  return out;
}

/** The kernel of a short convolution on the device: taps `[L, channels]`, bias `[channels]`. */
export interface DeviceConvolution {
  readonly taps: Tensor;
  readonly bias: Tensor;
}

/**
 * Records the gated short convolution of m rows `[B | C | u]`, after tokens whose z is in `state [L - 1, channels]`, to
 * `[m, channels]`; `next` receives z of the last tokens.
 */
export function encodeConvolution(
  commands: Commands,
  x: DeviceRowView,
  m: number,
  { taps, bias }: DeviceConvolution,
  state: Tensor,
  next: Tensor,
): Tensor {
  return encodeCausal(commands, convolution, x, m, { taps, bias }, state, next);
}

/**
 * Records the convolution of m rows before a memory, and SiLU, to `[m, channels]`; `next` receives the last columns.
 * @param state begins with columns `[L - 1, channels]` of the tokens before
 */
function encodeColumns(
  commands: Commands,
  x: DeviceRowView,
  m: number,
  { taps, bias }: DeviceConvolution,
  state: Tensor,
  next: Tensor,
): Tensor {
  const [before, after] = [state, next].map((all): Tensor => ({ ...all, shape: [taps.shape[0] - 1, taps.shape[1]] }));
  return encodeCausal(commands, memoryColumns, x, m, { taps, bias }, before, after);
}

/** Records a convolution of m rows after those of `state [L - 1, channels]`; `next` receives those of the last tokens. */
function encodeCausal(
  commands: Commands,
  kernel: CausalKernel,
  x: DeviceRowView,
  m: number,
  { taps, bias }: DeviceConvolution,
  state: Tensor,
  next: Tensor,
): Tensor {
  const [length, channels] = taps.shape,
    last = length - 1,
    out = commands.make([m, channels]);
  dispatch(
    commands,
    kernel,
    { x: readRows(x, m), taps, bias, state, out, next },
    { ...at(x), m, channels, last },
    (m + last) * channels,
  );
  return out;
}

/** The constants of a gated delta rule, with its arrays on the device. */
export type DeviceDelta = Omit<DeltaRule, 'taps' | 'bias' | 'decay' | 'timeBias' | 'gain'> &
  Readonly<Record<'taps' | 'bias' | 'decay' | 'timeBias' | 'gain', Tensor>>;

/**
 * Records the gated delta rule of m rows `[q | k | v | z | b | a]`, after tokens that left `state`, columns `[L - 1,
 * channels]` and then a memory of each value head, to `[m, valueHeads * valueDim]`; `next` receives the state after them.
 */
export function encodeGatedDelta(
  commands: Commands,
  x: DeviceRowView,
  m: number,
  rule: DeviceDelta,
  state: Tensor,
  next: Tensor,
): Tensor {
  const { channels, length, keyHeads, valueHeads: heads, keyDim, valueDim, keyHeadOf, eps } = rule,
    last = length - 1,
    memories = last * channels,
    qkv = columns(x, 0, channels),
    rest = columns(x, channels, x.width - channels),
    [held, left] = [state, next].map((all): Tensor => ({ ...all, shape: [heads, keyDim, valueDim] })),
    mixed = encodeColumns(commands, qkv, m, rule, state, next),
    out = commands.make([m, heads * valueDim]);
  dispatch(
    commands,
    gatedDelta,
    {
      ...{ x: readRows(rest, m), mixed, decay: rule.decay, time_bias: rule.timeBias, gain: rule.gain },
      ...{ state: held, out, next: left },
    },
    {
      ...{ ...at(rest), m, channels, heads, key_heads: keyHeads, key_dim: keyDim, value_dim: valueDim },
      ...{ tiled: keyHeadOf === 'tiled' ? 1 : 0, memories, eps },
    },
    heads,
  );
  commands.free(mixed);
  return out;
}

/** The constants of a state space, with its arrays on the device. */
export type DeviceSpace = Omit<SpaceRule, 'taps' | 'bias' | 'constants'> &
  Readonly<Record<'taps' | 'bias' | 'constants', Tensor>>;

/**
 * Records the state space of m rows `[z | x | B | C | dt]`, after tokens that left `state`, columns `[L - 1, channels]` and
 * then a memory of each head, to `[m, heads * headDim]`; `next` receives the state after them.
 */
export function encodeStateSpace(
  commands: Commands,
  x: DeviceRowView,
  m: number,
  space: DeviceSpace,
  state: Tensor,
  next: Tensor,
): Tensor {
  const { heads, headDim, groups, stateDim, channels, length, constants } = space,
    [least, most] = space.timeStep.map((bound) => Math.min(bound, LARGEST)),
    inner = heads * headDim,
    [held, left] = [state, next].map((all): Tensor => ({ ...all, shape: [heads, stateDim, headDim] })),
    mixed = encodeColumns(commands, columns(x, inner, channels), m, space, state, next),
    out = commands.make([m, inner]);
  dispatch(
    commands,
    stateSpace,
    { x: readRows(x, m), mixed, rule: constants, state: held, out, next: left },
    {
      ...{ ...at(x), m, channels, times: inner + channels, heads, groups, key_dim: stateDim, value_dim: headDim },
      ...{ memories: (length - 1) * channels, least, most },
    },
    heads,
  );
  commands.free(mixed);
  return out;
}

/** The largest f32, since WGSL knows no infinity. */
const LARGEST = 3.4028234663852886e38;

/** Records what heads give, x `[m, width]`, times the sigmoid of their gates, `[m, width]`, or `[m, H]`, one for each head. */
export function encodeOutputGate(commands: Commands, x: Tensor, gate: Tensor, width: number): Tensor {
  const [m, gates] = gate.shape,
    shape = [m, width],
    out = commands.make(shape);
  dispatch(commands, outputGate, { x: { ...x, shape }, gate, out }, { run: width / gates }, sizeOf(shape));
  return out;
}

/** Records the index of the largest number of each of m rows, u32 `[m]`; ties go to the lower index. */
export function encodeArgmax(commands: Commands, x: DeviceRowView, m: number): Tensor {
  const out = commands.make([m], 'u32');
  dispatch(commands, argmax, { x: readRows(x, m), out }, { ...at(x), width: x.width }, m);
  return out;
}

/**
 * Records the compaction of `data [rows, capacity, ...channels]`, in place or into
 * `out [rows, out capacity, ...channels]`, to the slots `kept [kept rows, stride]`, of which the first
 * `counts [kept rows]`, at most `most`, are valid. Several rows may share one of `kept`. Slots ascend and lie below
 * `capacity`.
 */
export function encodeCompact(
  commands: Commands,
  data: Tensor,
  kept: Tensor,
  counts: Tensor,
  { most = data.shape[1], out }: { readonly most?: number; readonly out?: Tensor } = {},
): void {
  const [rows = 1, capacity = 1, ...rest] = data.shape,
    channels = rest.reduce((a, b) => a * b, 1),
    [keptRows = 1, stride = 1] = kept.shape;
  const scalars = { capacity, channels, stride, group: rows / keptRows },
    read = { kept: firstSlots(kept, Math.min(most, stride)), counts, data: firstSlots(data, most) };
  if (out)
    dispatch(
      commands,
      gather,
      { ...read, out: firstSlots(out, most) },
      { ...scalars, slots: out.shape[1] },
      rows * out.shape[1] * channels,
    );
  else
    dispatch(commands, compact, read, scalars, rows * Math.ceil(channels / COMPACT_CHANNELS), {
      again: 4 * rows * most * channels,
    });
}

/**
 * A layer's cache in the layout of kernels: keys and values are rows `[G, capacity, words]` in a form, in f32 `[G,
 * capacity, d]`; positions u32 `[G, capacity]`, lengths u32 `[G]`. Records are one buffer, which is keys and values both;
 * `words` is then what a row has on average.
 */
export interface DeviceSlots {
  /** @defaultValue 'f32' */
  readonly form?: DeviceForm;
  /** Numbers of a row. */
  readonly headDim: number;
  readonly keys: Tensor;
  readonly values: Tensor;
  readonly positions: Tensor;
  readonly lengths: Tensor;
}

/**
 * Records the append of keys and values `[G, m, d]` at positions `added [m]` to every head, each at its own length;
 * they must fit. `next [G]` receives the new lengths.
 */
export function encodeAppend(
  commands: Commands,
  { form = 'f32', headDim, keys, values, positions, lengths }: DeviceSlots,
  k: Tensor,
  v: Tensor,
  added: Tensor,
  next: Tensor,
): void {
  const [heads = 1, capacity = 1] = keys.shape,
    m = added.shape[0];
  dispatch(
    commands,
    append(form, headDim),
    {
      k,
      v,
      added,
      lengths,
      keys: firstSlots(keys, m),
      values: firstSlots(values, m),
      positions: firstSlots(positions, m),
      next,
    },
    { m, capacity },
    heads * m,
  );
}

/** Rows of keys or values: those of the first `slots` slots of every head. */
export interface DeviceRows {
  readonly form: DeviceRowForm;
  /** `[G, capacity, words]` */
  readonly rows: Tensor;
  /** Numbers of a row. */
  readonly d: number;
  readonly slots: number;
}

/** Records the numbers of stored rows, `[G, slots, d]`, to `out`. */
export function encodeDecoded(commands: Commands, { form, rows, d, slots }: DeviceRows, out: Tensor): void {
  const [heads = 1, capacity = 1] = rows.shape;
  dispatch(
    commands,
    decode(form, d),
    { rows: firstSlots(rows, slots), out },
    { slots, capacity },
    (heads * slots * d) / WORD_NUMBERS[form],
  );
}

/** Records that rows of one form are stored in another, in `out`. */
export function encodeConverted(
  commands: Commands,
  { rows, d, slots, form }: DeviceRows & { readonly form: RowForm },
  to: RowForm,
  out: Tensor,
): void {
  const [heads = 1, capacity = 1] = rows.shape;
  dispatch(
    commands,
    convert(form, to, d),
    { rows: firstSlots(rows, slots), out: firstSlots(out, slots) },
    { slots, capacity },
    heads * slots,
  );
}

/**
 * Records that slots of a cache move to records `to` with these positions: for each place of `entries`, a table of
 * words, the slot that moves there, or `NO_SLOT`.
 */
export function encodeMovedRecords(
  commands: Commands,
  { form = 'f32', headDim, keys, values, positions }: Omit<DeviceSlots, 'lengths'>,
  { sources, entries }: { readonly sources: Uint32Array; readonly entries: Uint32Array },
  to: Pick<DeviceSlots, 'keys' | 'positions'>,
): void {
  const places = entries.length,
    moving = sources.reduce((sum, slot) => sum + (slot === NO_SLOT ? 0 : 1), 0),
    given = [sources, entries].map((words) => commands.upload(words, [places])) as [Tensor, Tensor],
    some = (x: Tensor): Tensor => ({ ...x, shape: [1, moving, ...x.shape.slice(2)] });
  dispatch(
    commands,
    moveRecords(form, headDim),
    {
      ...{ sources: given[0], entries: given[1] },
      ...{ keys: some(keys), values: some(values), positions: some(positions) },
      ...{ to: to.keys, moved: some(to.positions) },
    },
    {},
    places,
  );
  for (const spent of given) commands.free(spent);
}

/** Records that rows become those of `x [G, slots, d]` where their numbers differ. */
export function encodeReplaced(commands: Commands, { form, rows, d, slots }: DeviceRows, x: Tensor): void {
  const [heads = 1, capacity = 1] = rows.shape;
  dispatch(commands, replace(form, d), { x, rows: firstSlots(rows, slots) }, { slots, capacity }, heads * slots);
}

/**
 * Records the copy of `count` slots of every row of `x [rows, size, ...channels]`, which begins at element `x_at`, from
 * slot `first` on to `out [rows, out size, ...channels]` from slot `to` on; both wrap at a row's end.
 */
export function encodeSlots(
  commands: Commands,
  x: Tensor,
  out: Tensor,
  count: number,
  first = 0,
  to = 0,
  x_at = 0,
): void {
  const [rows = 1, size = 1, ...rest] = x.shape,
    channels = rest.reduce((a, b) => a * b, 1);
  dispatch(
    commands,
    slots,
    { x: firstSlots(x, count), out: firstSlots(out, count) },
    { x_at, slots: count, channels, first, size, to, out_size: out.shape[1] },
    rows * count * channels,
  );
}

/**
 * Records filling each row of `data [rows, capacity]`, f32, with `value` after its first `counts [rows / group]` slots.
 */
export function encodeRest(commands: Commands, data: Tensor, counts: Tensor, value: number): void {
  const [rows = 1, capacity = 1] = data.shape;
  dispatch(
    commands,
    rest,
    { counts, data },
    { capacity, group: rows / counts.shape[0], value: floatBits(value) },
    rows * capacity,
  );
}

/**
 * Records |v W_O|_1, or for p = 2 the sum of squares, of the first `slots` values of every head through each query
 * head's columns of the output product `[D, H * d]`: `[H, slots]`.
 */
export function encodeOutputNorms(
  commands: Commands,
  { form = 'f32', headDim, values, lengths }: Pick<DeviceSlots, 'form' | 'headDim' | 'values' | 'lengths'>,
  { inputs, parts }: DeviceMatrix,
  slots: number,
  p: OutputNorm,
): Tensor {
  const [kv_heads = 1, capacity = 1] = values.shape,
    heads = inputs / headDim,
    out = commands.make([heads, slots]);
  for (const [i, { form: as, rows, weights, scales }] of parts.entries())
    dispatch(
      commands,
      outputNorms(as, deviceForms[form].values, headDim, p),
      { values: firstSlots(values, slots), lengths, weights, scales, out },
      { heads, kv_heads, capacity, slots, rows, octets: octetsOf(inputs), join: i > 0 ? 1 : 0 },
      heads * Math.ceil(slots / outputSlots(headDim)),
    );
  return out;
}

const floatBits = (value: number): number => new Uint32Array(Float32Array.of(value).buffer)[0];

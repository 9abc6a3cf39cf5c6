import { KvError } from '@kv/core';
import { sizeOf } from '@kv/core/engine';
import type { DType, Tensor } from '@kv/core';
import type { Dispatch, Shader } from './shader.ts';
import { bytesOf, sizes } from './tensor.ts';

/** Threads of a workgroup unless a kernel declares otherwise: the default limit of WebGPU. */
export const THREADS = 256;

/**
 * A tensor that a kernel reads by row, slot and channel, broadcast to the `space` of the call. For a view `x` these are
 * in scope: `x_base(row)`, the start of the tensor's row for row `row` of the space; `x_get(at)`, an element;
 * `x_at(row, slot, channel)`; `x_valid(row)`, if ragged; and in `params` the space's `rows`, `slots` and `channels`,
 * and `x_rows` (0 if the tensor is left out), `x_row_step`, `x_slot_step`, `x_channel_step` and `x_slots`.
 */
export interface TensorView {
  /**
   * How an element is read: `f32` or `u32` as stored; either type as an f32 `number`, as a u32 `index`, or as its 32
   * `bits`; `shape` if only the shape and lengths are read.
   */
  readonly view: DType | 'number' | 'index' | 'bits' | 'shape';
  /** Whether the lengths of rows are bound. @defaultValue false */
  readonly ragged?: boolean;
}

/** A storage buffer: its element type in WGSL, with `write` if the kernel writes, or a view. */
export type BufferKind = string | readonly [type: string, access: 'write'] | TensorView;

/** A kernel as data: `B` names its buffers, `S` its scalars. */
export interface GpuKernel<B extends string = string, S extends string = string> {
  /** Its name in errors and timings. */
  readonly id: string;
  /** Unique for each text of a kernel. @defaultValue `id` */
  readonly key?: string;
  /** Bound in this order. */
  readonly buffers: Readonly<Partial<Record<B, BufferKind>>>;
  /** Scalars in `params`, in addition to `count`. */
  readonly scalars: Readonly<Record<S, DType>>;
  /** Threads of a workgroup. @defaultValue 256 */
  readonly threads?: number;
  /**
   * `element`: `fn run(index: u32)` for each of `count`. `group`: `fn run(group: u32, lane: u32)` for each of `count`
   * workgroups.
   * @defaultValue 'element'
   */
  readonly per?: 'element' | 'group';
  /** WGSL functions, including `run`. */
  readonly source: string;
  /** Statements before each call of `run`. */
  readonly before?: string;
  /** Whether it also computes in `f16`: for devices with the feature `shader-f16`. @defaultValue false */
  readonly half?: boolean;
  /**
   * Returns the additions, multiplications, comparisons and functions of a call, from its scalars, `count` and space.
   *
   * @defaultValue one for each of `count`, with `per: 'group'` one for each element of the space; none without a
   * space, since numbers are only moved
   */
  operations?(scalars: Readonly<Record<S | 'count' | 'rows' | 'slots' | 'channels', number>>): number;
}

/** Rows, slots and channels. */
export type Space = readonly [rows: number, slots: number, channels: number];

/** Options of a call of a kernel, apart from its operands. */
export interface CallOptions {
  /** Shape that views are broadcast to. @defaultValue [count, 1, 1] */
  readonly space?: Space;
  /** Bytes read or written in addition to once per buffer. @defaultValue 0 */
  readonly again?: number;
  /** Replaces the kernel's own count. */
  readonly operations?: () => number;
}

const isView = (kind: BufferKind): kind is TensorView => typeof kind === 'object' && 'view' in kind;
const followsTensor = ({ view }: TensorView): boolean => view === 'number' || view === 'index';
const buffersOf = ({ buffers }: GpuKernel): [name: string, kind: BufferKind][] =>
  Object.entries(buffers) as [string, BufferKind][];

/**
 * Records `count` elements or workgroups of a kernel; none for a count of 0. A tensor has the shape of what is read or
 * written of it, from which bytes are counted; views may be left out.
 * @param count elements, or workgroups, as the kernel's `space` says
 * @throws KvError for a buffer that is missing
 */
export function dispatch<B extends string, S extends string>(
  commands: { record(dispatch: Dispatch): void },
  kernel: GpuKernel<B, S>,
  buffers: Readonly<Partial<Record<B, Tensor | undefined>>>,
  scalars: Readonly<Record<S, number>>,
  count: number,
  { space, again = 0, operations }: CallOptions = {},
): void {
  const { id, key = id, per = 'element', threads = THREADS } = kernel,
    bound: (Tensor | undefined)[] = [],
    words: number[] = [],
    types: Record<string, DType> = {};
  let text = key;
  for (const [name, kind] of buffersOf(kernel)) {
    const x = (buffers as Readonly<Record<string, Tensor | undefined>>)[name];
    if (!isView(kind)) {
      if (!x) throw new KvError(id, `expected the buffer '${name}', got none`);
      bound.push(x);
      continue;
    }
    words.push(...viewWords(x));
    types[name] = x?.dtype ?? 'f32';
    if (followsTensor(kind)) text += `|${types[name]}`;
    if (kind.view !== 'shape') bound.push(x);
    if (kind.ragged) bound.push(x?.lengths);
  }
  const [rows, slots, channels] = space ?? [count, 1, 1];
  commands.record({
    key: text,
    shader: () => shaderOf(kernel, types),
    bound,
    scalars: Uint32Array.from([
      count,
      ...(words.length > 0 ? [rows, slots, channels, ...words] : []),
      ...Object.entries<DType>(kernel.scalars).map(([name, type]) => bits(scalars[name as S], type)),
    ]),
    groups: per === 'group' ? count : Math.ceil(count / threads),
    bytes: bytesOf(bound) + again,
    operations:
      operations ??
      (() =>
        kernel.operations?.({ count, rows, slots, channels, ...scalars }) ??
        (space ? (per === 'group' ? sizeOf(space) : count) : 0)),
  });
}

const VIEW = ['rows', 'row_step', 'slot_step', 'channel_step', 'slots', 'lengths'] as const;

/** Scalars of a view: a step is 0 along an axis of size 1, which is broadcast. */
function viewWords(x: Tensor | undefined): readonly number[] {
  if (!x) return VIEW.map(() => 0);
  const [rows, slots, channels] = sizes(x);
  return [
    rows,
    rows === 1 ? 0 : slots * channels,
    slots === 1 ? 0 : channels,
    channels === 1 ? 0 : 1,
    slots,
    x.lengths?.shape[0] ?? 0,
  ];
}

/** Returns the WGSL functions of a view. */
function viewText(name: string, { view, ragged = false }: TensorView): string {
  const type = view === 'number' ? 'f32' : view === 'bits' || view === 'index' ? 'u32' : view,
    elements = /* wgsl */ `
fn ${name}_base(row: u32) -> u32 { return row * params.${name}_rows / params.rows * params.${name}_row_step; }
fn ${name}_get(at: u32) -> ${type} { return ${type}(${name}[at]); }
fn ${name}_at(row: u32, slot: u32, channel: u32) -> ${type} { return ${name}_get(${name}_base(row) + slot * params.${name}_slot_step + channel * params.${name}_channel_step); }`,
    lengths = /* wgsl */ `
fn ${name}_valid(row: u32) -> u32 { if (params.${name}_lengths == 0u) { return params.${name}_slots; } return ${name}_lengths[row * params.${name}_lengths / params.rows]; }`;
  return `${view === 'shape' ? '' : elements}${ragged ? lengths : ''}`;
}

/** Returns the complete shader of a kernel, for views of tensors of these types. */
function shaderOf(kernel: GpuKernel, types: Readonly<Record<string, DType>>): Shader {
  const { id, scalars, threads = THREADS, per = 'element', source, before = '', half = false } = kernel,
    declared: { readonly name: string; readonly type: string; readonly write: boolean }[] = [],
    params = ['count: u32'],
    views: string[] = [];
  for (const [name, kind] of buffersOf(kernel)) {
    if (!isView(kind)) {
      const [type, access] = typeof kind === 'string' ? [kind] : kind;
      declared.push({ name, type, write: access === 'write' });
      continue;
    }
    if (views.length === 0) params.push('rows: u32', 'slots: u32', 'channels: u32');
    params.push(...VIEW.map((of) => `${name}_${of}: u32`));
    views.push(viewText(name, kind));
    const type = followsTensor(kind) ? types[name] : kind.view === 'bits' ? 'u32' : kind.view;
    if (kind.view !== 'shape') declared.push({ name, type, write: false });
    if (kind.ragged) declared.push({ name: `${name}_lengths`, type: 'u32', write: false });
  }
  params.push(...Object.entries(scalars).map(([name, type]) => `${name}: ${type}`));
  const bindings = declared.map(
      ({ name, type, write }, i) =>
        `@group(0) @binding(${i}) var<storage, ${write ? 'read_write' : 'read'}> ${name}: array<${type}>;`,
    ),
    start =
      per === 'element'
        ? `let index = at * ${threads}u + lane; if (index < params.count) { ${before}run(index); }`
        : `if (at < params.count) { ${before}run(at, lane); }`;
  // a grid may be larger than `count`: invocations beyond it do nothing
  const code = /* wgsl */ `${half ? 'enable f16;' : ''}
struct Params { ${params.join(', ')} }
@group(1) @binding(0) var<uniform> params: Params;
${bindings.join('\n')}${views.join('')}
${source}
@compute @workgroup_size(${threads})
fn main(
  @builtin(workgroup_id) here: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let at = here.y * groups.x + here.x;
  ${start}
}`;
  return { id, code, writes: declared.map(({ write }) => write) };
}

const number = new DataView(new ArrayBuffer(4));
/** Returns the bits of a scalar in its WGSL type. */
export function bits(value: number, type: DType): number {
  if (type === 'u32') number.setUint32(0, value);
  else number.setFloat32(0, value);
  return number.getUint32(0);
}

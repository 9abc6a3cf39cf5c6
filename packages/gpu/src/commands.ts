import { KvError } from '@kv/core';
import { sizeOf } from '@kv/core/engine';
import type { Tensor, DType } from '@kv/core';
import type { Memory, Pool } from './buffer-pool.ts';
import type { Pipelines } from './pipelines.ts';
import { UNIFORM_BYTES } from './recorder.ts';
import type { Recorder } from './recorder.ts';
import { followsTensor, shader, THREADS } from './kernel.ts';
import type { Call, KernelDef } from './kernel.ts';
import { bits } from './shader-text.ts';
import type { Shader } from './shader-text.ts';
import { bytesOf, sizes } from './tensor.ts';
import type { GpuTensor } from './tensor.ts';

/** Commands beside `Ops`, for kernels that are not pieces': recorded in one order with what the operations record. */
export interface Commands {
  /**
   * A new tensor that this scope owns; its elements are whatever they were. @throws KvError for one larger than the
   * adapter binds.
   */
  make(shape: readonly number[], dtype?: DType): Tensor;
  upload(data: Float32Array | Uint32Array, shape: readonly number[]): Tensor;
  /** Host numbers into a tensor, from element `at` on. */
  write(x: Tensor, data: Float32Array | Uint32Array, at: number): void;
  /** Gives a tensor of this scope back before the scope ends; what was recorded with it still runs. */
  free(x: Tensor): void;
  /**
   * Workgroups of a kernel: its buffers in order at group 0, its scalars (at most 64, each of 4 bytes) at group 1.
   *
   * @param bytes that it reads and writes, for the counters. @defaultValue those of the tensors, each once
   * @param operations additions, multiplications, comparisons and functions, for plans. @defaultValue none
   */
  dispatch(
    kernel: Shader,
    buffers: readonly Tensor[],
    scalars: Uint32Array,
    groups: number,
    bytes?: number,
    operations?: () => number,
  ): void;
}

/** What an operation is written with: a device's commands, or a plan of them. */
export interface Recording {
  make(shape: readonly number[], dtype?: DType, lengths?: Tensor): Tensor;
  upload(data: Float32Array | Uint32Array, shape: readonly number[], lengths?: Tensor): Tensor;
  record(dispatch: Dispatch): void;
  /** The same tensor. @throws KvError for one of another backend, or of a scope that has ended */
  own(x: Tensor): Tensor;
}

/** What operations and other kernels are recorded with. */
export type AllCommands = Recording & Omit<Commands, keyof Recording>;

/** Workgroups of a shader over tensors. */
export interface Dispatch {
  /** Unique among shaders with another text. */
  readonly key: string;
  readonly shader: () => Shader;
  /** By binding; undefined for what is not there. */
  readonly bound: readonly (Tensor | undefined)[];
  readonly scalars: Uint32Array;
  readonly groups: number;
  /** That it reads and writes. @defaultValue those of the tensors, each once */
  readonly bytes?: number | undefined;
  /** Additions, multiplications, comparisons and functions. */
  readonly operations?: (() => number) | undefined;
}

/** What `Commands.dispatch` records. */
export const dispatchOf = (
  ...[kernel, bound, scalars, groups, bytes, operations]: Parameters<Commands['dispatch']>
): Dispatch => ({
  key: kernel.id,
  shader: () => kernel,
  bound,
  scalars,
  groups,
  bytes,
  operations,
});

/** Strides for broadcasting: 0 along axes of size 1. */
function steps(x: Tensor): [number, number, number] {
  const [rows, slots, channels] = sizes(x);
  return [rows === 1 ? 0 : slots * channels, slots === 1 ? 0 : channels, channels === 1 ? 0 : 1];
}
const view = (x: Tensor | undefined): readonly number[] =>
  x ? [sizes(x)[0], ...steps(x), sizes(x)[1], x.lengths?.shape[0] ?? 0] : [0, 0, 0, 0, 0, 0];

/** Records a kernel. */
export function run(g: Recording, def: KernelDef, call: Call): void {
  const { space, inputs = {}, outputs, params = {}, count = sizeOf(space) } = call;
  const names = Object.keys(def.inputs);
  const types = Object.fromEntries(names.map((x) => [x, inputs[x]?.dtype ?? 'f32']));
  const extra = Object.entries(def.params ?? {}).map(([name, type]) => bits(params[name], type));
  g.record({
    key: `${def.id}|${names.map((x) => (followsTensor(def.inputs[x]) ? types[x] : '')).join()}`,
    shader: () => shader(def, types),
    bound: [
      ...names.map((x) => (def.shapes?.includes(x) ? undefined : inputs[x])),
      ...(def.ragged ?? []).map((x) => inputs[x]?.lengths),
      ...Object.keys(def.outputs).map((x) => outputs[x]),
    ],
    scalars: Uint32Array.from([count, ...space, ...names.flatMap((x) => view(inputs[x])), ...extra]),
    groups: def.per === 'group' ? count : Math.ceil(count / THREADS),
    operations: () => def.operations?.({ space, count, params }) ?? (def.per === 'group' ? sizeOf(space) : count),
  });
}

/** What all scopes of a device have in common. */
export interface Shared {
  readonly device: GPUDevice;
  readonly pool: Pool;
  readonly pipelines: Pipelines;
  readonly recorder: Recorder;
}

/** A tensor as this device made it. */
export type Own = (x: Tensor) => GpuTensor;

/**
 * The recording of one scope: `owned` collects the memory that it has to give back. `own` throws a KvError for a tensor
 * of another backend, or of a scope that has ended.
 */
export function recording(
  { device, pool, pipelines, recorder }: Shared,
  owned: Set<Memory>,
): { readonly g: AllCommands; readonly own: Own } {
  let blank: Memory | undefined; // stands for inputs and lengths that are not there
  const nothing = (): Memory => {
    if (!blank?.alive) owned.add((blank = pool.take(4)));
    return blank;
  };
  const own: Own = (x) => {
    const memory = (x as Partial<GpuTensor>).memory;
    if (memory?.pool !== pool)
      throw new KvError('gpu', 'a tensor of another backend came in, expected one made by these operations');
    if (!memory.alive)
      throw new KvError(
        'gpu',
        'a tensor came in whose scope has ended, expected one that is still held: keep() it before the scope ends',
      );
    return x as GpuTensor;
  };
  const made = (
    shape: readonly number[],
    dtype: DType,
    lengths: Tensor | undefined,
    not?: (memory: Memory) => boolean,
  ): GpuTensor => {
    const bytes = 4 * sizeOf(shape),
      most = device.limits.maxStorageBufferBindingSize;
    if (bytes > most)
      throw new KvError(
        'gpu',
        `a tensor of shape [${shape}] needs ${bytes} bytes, but this adapter binds at most ${most}: expected a smaller one`,
      );
    const memory = pool.take(bytes, 'storage', not);
    owned.add(memory);
    return { shape, dtype, memory, ...(lengths && { lengths }) };
  };
  const record: Recording['record'] = ({ key, shader, bound, scalars, groups, bytes = bytesOf(bound) }) => {
    if (scalars.byteLength > UNIFORM_BYTES)
      throw new KvError(shader().id, `has ${scalars.length} scalars, expected at most ${UNIFORM_BYTES / 4}`);
    if (groups === 0) return;
    const memories = bound.map((x) => (x ? own(x).memory : nothing()));
    recorder.dispatch(pipelines.get(key, shader), memories, scalars, groups, bytes);
  };
  return {
    own,
    g: {
      own(x) {
        if (x.lengths) own(x.lengths);
        const { shape, memory } = own(x);
        if (!(4 * sizeOf(shape) <= memory.wanted))
          throw new KvError('gpu', `expected a tensor of at least its shape [${shape}], got ${memory.wanted} bytes`);
        return x;
      },
      make: (shape, dtype = 'f32', lengths) => made(shape, dtype, lengths),
      upload(data, shape, lengths) {
        const tensor = made(shape, data instanceof Uint32Array ? 'u32' : 'f32', lengths, recorder.waits); // another one's commands need not be submitted first
        if (data.length > 0) recorder.write(tensor.memory, data);
        return tensor;
      },
      write(x, data, at) {
        if (data.length > 0) recorder.write(own(x).memory, data, 4 * at);
      },
      free(x) {
        const { memory } = own(x);
        if (owned.delete(memory)) pool.give(memory);
      },
      record,
      dispatch: (...args) => record(dispatchOf(...args)),
    },
  };
}

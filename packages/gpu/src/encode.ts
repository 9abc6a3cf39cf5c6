import { KvError, sizeOf } from '@kv/core';
import type { DType, Tensor } from '@kv/core';
import type { Memory, Pool } from './memory.ts';
import type { Pipelines } from './pipelines.ts';
import { UNIFORM_BYTES } from './recorder.ts';
import type { Recorder } from './recorder.ts';
import { followsTensor, scalars, shader } from './shader.ts';
import type { KernelDef } from './shader.ts';
import { bits } from './shader-text.ts';
import type { Shader } from './shader-text.ts';
import { sizes } from './tensor.ts';
import type { GpuTensor } from './tensor.ts';

/**
 * One dispatch. `space` is the result's rows, slots and channels; `count` elements or workgroups, the whole space if
 * left out.
 */
interface Call {
  readonly space: readonly [rows: number, slots: number, channels: number];
  readonly count?: number;
  /** A missing input reads as `NAME_rows` 0. */
  readonly inputs?: Readonly<Record<string, GpuTensor | undefined>>;
  readonly outputs: Readonly<Record<string, GpuTensor>>;
  readonly params?: Readonly<Record<string, number>>;
}

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
   */
  dispatch(kernel: Shader, buffers: readonly Tensor[], scalars: Uint32Array, groups: number, bytes?: number): void;
}

/** What an operation is written with. */
export interface Recording extends Commands {
  make(shape: readonly number[], dtype?: DType, lengths?: GpuTensor): GpuTensor;
  upload(data: Float32Array | Uint32Array, shape: readonly number[], lengths?: GpuTensor): GpuTensor;
  run(def: KernelDef, call: Call): void;
  /** Workgroups of a kernel with its own text and scalars. */
  runRaw(key: string, make: () => Shader, tensors: readonly GpuTensor[], uniform: Uint32Array, groups: number): void;
  /** The tensor as this device made it. @throws KvError for one of another backend, or of a scope that has ended. */
  own(x: Tensor): GpuTensor;
}

/** Strides for broadcasting: 0 along axes of size 1. */
function steps(x: GpuTensor): [number, number, number] {
  const [rows, slots, channels] = sizes(x);
  return [rows === 1 ? 0 : slots * channels, slots === 1 ? 0 : channels, channels === 1 ? 0 : 1];
}
const view = (x: GpuTensor | undefined): readonly number[] =>
  x ? [sizes(x)[0], ...steps(x), sizes(x)[1], x.lengths?.shape[0] ?? 0] : [0, 0, 0, 0, 0, 0];

const bytesOf = (tensors: readonly (Tensor | undefined)[]): number =>
  tensors.reduce((sum, x) => sum + (x ? 4 * sizeOf(x.shape) : 0), 0);

/** What all scopes of a device have in common. */
export interface Shared {
  readonly device: GPUDevice;
  readonly pool: Pool;
  readonly pipelines: Pipelines;
  readonly recorder: Recorder;
}

/** The recording of one scope: `owned` collects the memory that it has to give back. */
export function recording({ device, pool, pipelines, recorder }: Shared, owned: Set<Memory>): Recording {
  let blank: Memory | undefined; // stands for inputs and lengths that are not there
  const nothing = (): Memory => {
    if (!blank?.alive) owned.add((blank = pool.take(4)));
    return blank;
  };
  const made = (
    shape: readonly number[],
    dtype: DType,
    lengths: GpuTensor | undefined,
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
  const self: Recording = {
    make: (shape, dtype = 'f32', lengths) => made(shape, dtype, lengths),
    upload(data, shape, lengths) {
      const tensor = made(shape, data instanceof Uint32Array ? 'u32' : 'f32', lengths, recorder.waits); // another one's commands need not be submitted first
      if (data.length > 0) recorder.write(tensor.memory, data);
      return tensor;
    },
    write(x, data, at) {
      if (data.length > 0) recorder.write(self.own(x).memory, data, 4 * at);
    },
    free(x) {
      const { memory } = self.own(x);
      if (owned.delete(memory)) pool.give(memory);
    },
    dispatch(kernel, buffers, values, groups, bytes = bytesOf(buffers)) {
      if (values.length * 4 > UNIFORM_BYTES)
        throw new KvError(kernel.id, `has ${values.length} scalars, expected at most ${UNIFORM_BYTES / 4}`);
      if (groups > 0)
        recorder.dispatch(
          pipelines.get(kernel.id, () => kernel),
          buffers.map((x) => self.own(x).memory),
          values,
          groups,
          bytes,
        );
    },
    own(x) {
      const memory = (x as Partial<GpuTensor>).memory;
      if (memory?.pool !== pool)
        throw new KvError('gpu', 'a tensor of another backend came in, expected one made by these operations');
      if (!memory.alive)
        throw new KvError(
          'gpu',
          'a tensor came in whose scope has ended, expected one that is still held: keep() it before the scope ends',
        );
      return x as GpuTensor;
    },
    run(def, { space, inputs = {}, outputs, params = {}, count = space[0] * space[1] * space[2] }) {
      if (count === 0) return;
      const names = Object.keys(def.inputs);
      const types = Object.fromEntries(names.map((x) => [x, inputs[x]?.dtype ?? 'f32']));
      const pipeline = pipelines.get(
        `${def.id}|${names.map((x) => (followsTensor(def.inputs[x]) ? types[x] : '')).join()}`,
        () => shader(def, types),
      );
      const extra = Object.entries(def.params ?? {}).map(([name, type]) => bits(params[name], type));
      const values = [count, ...space, ...names.flatMap((x) => view(inputs[x])), ...extra];
      if (values.length * 4 > UNIFORM_BYTES || values.length !== scalars(def).length)
        throw new KvError(def.id, `has ${values.length} scalars, expected at most ${UNIFORM_BYTES / 4}`);
      const bound = [
        ...names.map((x) => (def.shapes?.includes(x) ? undefined : inputs[x])),
        ...(def.ragged ?? []).map((x) => inputs[x]?.lengths),
        ...Object.keys(def.outputs).map((x) => outputs[x]),
      ];
      recorder.dispatch(
        pipeline,
        bound.map((x) => x?.memory ?? nothing()),
        Uint32Array.from(values),
        def.per === 'element' ? Math.ceil(count / 256) : count,
        bytesOf(bound),
      );
    },
    runRaw(key, make, tensors, uniform, groups) {
      if (groups > 0)
        recorder.dispatch(
          pipelines.get(key, make),
          tensors.map((t) => t.memory),
          uniform,
          groups,
          bytesOf(tensors),
        );
    },
  };
  return self;
}

import { KvError } from '@kv/core';
import { sizeOf } from '@kv/core/engine';
import type { Tensor, DType } from '@kv/core';
import type { BufferPool, PooledBuffer } from './buffer-pool.ts';
import type { Dispatch } from './shader.ts';
import type { Pipelines } from './pipelines.ts';
import { UNIFORM_BYTES } from './recorder.ts';
import type { CommandRecorder } from './recorder.ts';
import { bytesOf } from './tensor.ts';
import type { GpuTensor } from './tensor.ts';

/**
 * Commands of one scope, on a device or a plan of one: records its operations, and other kernels in one order with
 * them.
 */
export interface Commands {
  /** The most bytes of a tensor. */
  readonly mostBytes: number;
  /**
   * Returns a new tensor that this scope owns; its elements are undefined.
   * @throws KvError for one larger than the adapter can bind.
   */
  make(shape: readonly number[], dtype?: DType, lengths?: Tensor): Tensor;
  upload(data: Float32Array | Uint32Array, shape: readonly number[], lengths?: Tensor): Tensor;
  /** Writes host numbers into a tensor, from element `at` on. Does nothing once the device was destroyed. */
  write(x: Tensor, data: Float32Array | Uint32Array, at: number): void;
  /**
   * Releases a tensor of this scope before the scope ends; commands already recorded with it still run. Does nothing once
   * the device was destroyed.
   */
  free(x: Tensor): void;
  /** Records a dispatch. @throws KvError for a tensor of another backend, or of a scope that has ended */
  record(dispatch: Dispatch): void;
  /** Returns the tensor. @throws KvError for one of another backend, or of a scope that has ended */
  own(x: Tensor): Tensor;
}

/** What all scopes of a device share. */
export interface DeviceParts {
  readonly device: GPUDevice;
  readonly pool: BufferPool;
  readonly pipelines: Pipelines;
  readonly recorder: CommandRecorder;
}

/**
 * Returns the tensor as one of this device.
 * @throws KvError for one of another backend, or of a scope that has ended
 */
export type ExpectOwn = (x: Tensor) => GpuTensor;

/** Returns the commands of one scope; `owned` collects the buffers that it has to release. */
export function deviceCommands(
  { pool, pipelines, recorder }: DeviceParts,
  owned: Set<PooledBuffer>,
): { readonly commands: Commands; readonly own: ExpectOwn } {
  let blank: PooledBuffer | undefined; // bound instead of absent inputs and lengths
  const nothing = (): PooledBuffer => {
    if (!blank?.alive) owned.add((blank = pool.take(4)));
    return blank;
  };
  const own: ExpectOwn = (x) => {
    const memory = (x as Partial<GpuTensor>).memory;
    if (memory?.pool !== pool)
      throw new KvError('gpu', 'a tensor of another backend came in, expected one made by these operations');
    if (pool.ended) throw pool.ended;
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
    not?: (memory: PooledBuffer) => boolean,
  ): GpuTensor => {
    const bytes = 4 * sizeOf(shape);
    if (bytes > pool.mostBytes)
      throw new KvError(
        'gpu',
        `a tensor of shape [${shape}] needs ${bytes} bytes, but this adapter binds at most ${pool.mostBytes}: expected a smaller one`,
      );
    const memory = pool.take(bytes, 'storage', not);
    owned.add(memory);
    return { shape, dtype, memory, ...(lengths && { lengths }) };
  };
  const record: Commands['record'] = ({ key, shader, bound, scalars, groups, bytes = bytesOf(bound) }) => {
    if (scalars.byteLength > UNIFORM_BYTES)
      throw new KvError(shader().id, `has ${scalars.length} scalars, expected at most ${UNIFORM_BYTES / 4}`);
    if (groups === 0) return;
    const memories = bound.map((x) => (x ? own(x).memory : nothing()));
    recorder.dispatch(pipelines.get(key, shader), memories, scalars, groups, bytes);
  };
  return {
    own,
    commands: {
      mostBytes: pool.mostBytes,
      own(x) {
        if (x.lengths) own(x.lengths);
        const { shape, memory } = own(x);
        if (!(4 * sizeOf(shape) <= memory.wanted))
          throw new KvError('gpu', `expected a tensor of at least its shape [${shape}], got ${memory.wanted} bytes`);
        return x;
      },
      make: (shape, dtype = 'f32', lengths) => made(shape, dtype, lengths),
      upload(data, shape, lengths) {
        // pass over buffers that waiting commands use: writing to one would need a submit first
        const tensor = made(shape, data instanceof Uint32Array ? 'u32' : 'f32', lengths, recorder.waits);
        if (data.length > 0) recorder.write(tensor.memory, data);
        return tensor;
      },
      write(x, data, at) {
        if (data.length > 0 && !pool.ended) recorder.write(own(x).memory, data, 4 * at);
      },
      free(x) {
        if (pool.ended) return;
        const { memory } = own(x);
        if (owned.delete(memory)) pool.give(memory);
      },
      record,
    },
  };
}

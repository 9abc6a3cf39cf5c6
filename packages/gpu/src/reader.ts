import { KvError } from '@kv/core';
import { sizeOf } from '@kv/core/engine';
import type { Backend, Tensor } from '@kv/core';
import type { ExpectOwn, DeviceParts } from './commands.ts';
import type { GpuTensor } from './tensor.ts';

/** The first error of the device. */
export interface DeviceFault {
  error: KvError | undefined;
}

/**
 * Submits everything recorded so far, then reads all tensors and their lengths: one submit, one mapped buffer.
 * @throws KvError for an error that the device reported.
 */
export async function readTensors(
  tensors: readonly Tensor[],
  own: ExpectOwn,
  { pool, pipelines, recorder, fault }: DeviceParts & { readonly fault: DeviceFault },
): ReturnType<Backend['read']> {
  const places = new Map<GpuTensor['memory'], readonly [offset: number, bytes: number]>();
  let end = 0;
  const place = (x: GpuTensor): void => {
    const bytes = 4 * sizeOf(x.shape);
    if (places.has(x.memory)) return;
    places.set(x.memory, [end, bytes]);
    end += bytes;
  };
  const all = tensors.map((x) => [own(x), x.lengths && own(x.lengths)] as const);
  for (const x of all.flat()) if (x) place(x);
  const staging = pool.take(end, 'read');
  try {
    for (const [memory, [offset, bytes]] of places) if (bytes > 0) recorder.copy(memory, staging, offset, bytes);
    recorder.submit();
    recorder.counters.readbacks++;
    await pipelines.compiled();
    await mapped(staging.buffer, fault);
    const copy = staging.buffer.getMappedRange().slice(0);
    staging.buffer.unmap();
    if (fault.error) throw fault.error;
    const numbers = ({ memory, dtype, shape }: GpuTensor): Float32Array | Uint32Array =>
      new (dtype === 'u32' ? Uint32Array : Float32Array)(copy, places.get(memory)![0], sizeOf(shape)); // placed above
    return all.map(([x, lengths]) => ({
      data: numbers(x),
      shape: x.shape,
      lengths: lengths && (numbers(lengths) as Uint32Array),
    }));
  } finally {
    pool.give(staging);
  }
}

/** Maps a buffer for reading. A lost device rejects the mapping, so the loss is reported instead. */
async function mapped(buffer: GPUBuffer, fault: DeviceFault): Promise<void> {
  try {
    await buffer.mapAsync(1 /* GPUMapMode.READ */);
  } catch (cause) {
    await new Promise((resolve) => setTimeout(resolve, 0)); // the loss is reported in a task of its own
    throw (
      fault.error ??
      new KvError('gpu', `reading back failed: ${cause instanceof Error ? cause.message : String(cause)}`)
    );
  }
}

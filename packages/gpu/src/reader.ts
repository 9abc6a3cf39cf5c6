import { KvError } from '@kv/core';
import { sizeOf } from '@kv/core/engine';
import type { Backend, Tensor } from '@kv/core';
import type { ExpectOwn, DeviceParts } from './commands.ts';
import type { PooledBuffer } from './buffer-pool.ts';
import type { GpuTensor } from './tensor.ts';

/** The first error of the device. */
export interface DeviceFault {
  error: KvError | undefined;
}

/** Bytes that are read together, unless a tensor is larger: each part is given back once it was copied. */
const TOGETHER = 2 ** 26;

/** Tensors that are read from one mapped buffer. */
interface ReadPart {
  bytes: number;
  readonly memories: Map<GpuTensor['memory'], readonly [offset: number, bytes: number]>;
}

/**
 * Submits everything recorded so far, then reads all tensors and their lengths: one submit, and one mapped buffer unless
 * they are large.
 * @throws KvError for an error that the device reported.
 */
export async function readTensors(
  tensors: readonly Tensor[],
  own: ExpectOwn,
  { pool, pipelines, recorder, fault }: DeviceParts & { readonly fault: DeviceFault },
): ReturnType<Backend['read']> {
  const parts: ReadPart[] = [{ bytes: 0, memories: new Map() }],
    placed = new Set<GpuTensor['memory']>();
  const most = Math.min(TOGETHER, pool.mostBytes);
  const place = ({ memory, shape }: GpuTensor): void => {
    if (placed.has(memory)) return;
    placed.add(memory);
    const bytes = 4 * sizeOf(shape),
      last = parts.at(-1)!, // there is one from the start
      part = last.bytes === 0 || last.bytes + bytes <= most ? last : { bytes: 0, memories: new Map() };
    if (part !== last) parts.push(part);
    part.memories.set(memory, [part.bytes, bytes]);
    part.bytes += bytes;
  };
  const all = tensors.map((x) => [own(x), x.lengths && own(x.lengths)] as const);
  for (const x of all.flat()) if (x) place(x);
  const staged: (ReadPart & { readonly staging: PooledBuffer })[] = [],
    copies = new Map<GpuTensor['memory'], readonly [copy: ArrayBuffer, offset: number]>();
  try {
    // all copies are recorded at once: what is read is of one moment
    for (const part of parts) {
      const staging = pool.take(part.bytes, 'read');
      staged.push({ ...part, staging });
      for (const [memory, [offset, bytes]] of part.memories)
        if (bytes > 0) recorder.copy(memory, staging, offset, bytes);
    }
    recorder.submit();
    recorder.counters.readbacks++;
    await pipelines.compiled();
    for (const { memories, bytes, staging } of staged) {
      if (fault.error) throw fault.error;
      await mapped(staging.buffer, fault);
      // the whole range: asked for a part of one, Dawn in Node now and then ends the process
      const copy = staging.buffer.getMappedRange().slice(0, bytes);
      staging.buffer.unmap();
      pool.give(staging);
      for (const [memory, [offset]] of memories) copies.set(memory, [copy, offset]);
    }
    if (fault.error) throw fault.error;
    const numbers = ({ memory, dtype, shape }: GpuTensor): Float32Array | Uint32Array =>
      new (dtype === 'u32' ? Uint32Array : Float32Array)(...copies.get(memory)!, sizeOf(shape)); // copied above
    return all.map(([x, lengths]) => ({
      data: numbers(x),
      shape: x.shape,
      lengths: lengths && (numbers(lengths) as Uint32Array),
    }));
  } finally {
    for (const { staging } of staged) pool.give(staging);
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

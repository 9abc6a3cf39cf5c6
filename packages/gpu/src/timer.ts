import { KvError } from '@kv/core';
import type { PooledBuffer, BufferPool } from './buffer-pool.ts';

/** Time on the device for dispatches of one label: of one kernel, or (`kernel` empty) of whole passes. */
export interface Timing {
  /** Label set by `gpu.label`. */
  readonly label: string;
  /** Id of the kernel; empty for whole passes. */
  readonly kernel: string;
  readonly dispatches: number;
  readonly nanoseconds: number;
}

/**
 * Whether every dispatch is timed in a pass of its own, which adds the cost of a pass, or passes stay as they are
 * recorded.
 */
export type TimingMode = 'kernels' | 'passes';

/** Times passes by timestamp queries. */
export interface Timer {
  readonly timed: TimingMode;
  /** The label for commands recorded from now on. */
  label: string;
  /** Starts a new pass, which begins with a dispatch of this kernel. */
  begin(kernel: string): GPUComputePassDescriptor;
  /** Counts another dispatch of the newest pass. */
  count(): void;
  /** Records a read of the encoder's pass times; call the returned function once they are submitted. */
  end(encoder: GPUCommandEncoder): () => void;
  /** Returns the sums since the last call, longest first, of everything submitted. */
  read(): Promise<Timing[]>;
  destroy(): void;
}

/** @param passes maximum number per submit */
export function createTimer(device: GPUDevice, pool: () => BufferPool, timed: TimingMode, passes: number): Timer {
  const queries = device.createQuerySet({ type: 'timestamp', count: 2 * passes });
  const sums = new Map<string, { -readonly [K in keyof Timing]: Timing[K] }>();
  let open: { label: string; kernel: string; dispatches: number }[] = [],
    waiting: Promise<void>[] = [],
    resolved: PooledBuffer | undefined;
  const add = async (staging: PooledBuffer, spans: typeof open): Promise<void> => {
    try {
      await staging.buffer.mapAsync(1 /* GPUMapMode.READ */);
      const times = new BigUint64Array(staging.buffer.getMappedRange(), 0, 2 * spans.length);
      for (const [i, { label, kernel, dispatches }] of spans.entries()) {
        const key = `${label}\n${kernel}`,
          sum = sums.get(key) ?? { label, kernel, dispatches: 0, nanoseconds: 0 };
        sum.dispatches += dispatches;
        sum.nanoseconds += Math.max(0, Number(times[2 * i + 1] - times[2 * i])); // an adapter may reset its clock
        sums.set(key, sum);
      }
      staging.buffer.unmap();
    } finally {
      pool().give(staging);
    }
  };
  const self: Timer = {
    timed,
    label: '',
    begin(kernel) {
      const at = 2 * open.length;
      open.push({ label: self.label, kernel: timed === 'kernels' ? kernel : '', dispatches: 1 });
      return { timestampWrites: { querySet: queries, beginningOfPassWriteIndex: at, endOfPassWriteIndex: at + 1 } };
    },
    count() {
      open.at(-1)!.dispatches++; // `begin` comes before `count`
    },
    end(encoder) {
      const spans = open,
        bytes = 16 * spans.length;
      if (bytes === 0) return () => {};
      open = [];
      resolved ??= pool().take(16 * passes, 'resolve');
      const staging = pool().take(bytes, 'read');
      encoder.resolveQuerySet(queries, 0, 2 * spans.length, resolved.buffer, 0);
      encoder.copyBufferToBuffer(resolved.buffer, 0, staging.buffer, 0, bytes);
      return () => {
        const read = add(staging, spans);
        read.catch(() => {}); // `read` below reports it
        waiting.push(read);
      };
    },
    async read() {
      const all = waiting;
      waiting = [];
      try {
        await Promise.all(all);
      } catch (cause) {
        throw new KvError(
          'gpu',
          `reading timestamps failed: ${cause instanceof Error ? cause.message : String(cause)}`,
        );
      }
      const timings = [...sums.values()].sort((a, b) => b.nanoseconds - a.nanoseconds);
      sums.clear();
      return timings;
    },
    destroy() {
      queries.destroy();
    },
  };
  return self;
}

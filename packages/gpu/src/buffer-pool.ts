import type { KvError } from '@kv/core';

/** Bytes of GPU buffers: those of tensors and all others of the backend. */
export interface BufferLedger {
  /** Bytes of buffers in use. */
  readonly live: number;
  /** Bytes of all buffers, idle ones of the pool included; 0 after `destroy()`. */
  readonly allocated: number;
  /** The largest `allocated` so far. */
  readonly peak: number;
  /** Number of buffers; 0 after `destroy()`. */
  readonly buffers: number;
}

/** A buffer of the pool, used by one tensor at a time. */
export interface PooledBuffer {
  readonly buffer: GPUBuffer;
  readonly bytes: number;
  /** The requested number of bytes, at most `bytes`. */
  readonly wanted: number;
  readonly kind: BufferUse;
  /** The pool that owns it; identifies the device that a tensor belongs to. */
  readonly pool: BufferPool;
  /**
   * False once released. Every use of a buffer has a new object, so that a tensor that outlived its scope is
   * recognised.
   */
  alive: boolean;
  /** The batch of commands that last used it. */
  readonly use: { batch: number };
}
type BufferUse = 'storage' | 'uniform' | 'read' | 'resolve';
/** Usage flags as numbers: GPUBufferUsage is a global in browsers only. */
const USAGE: Readonly<Record<BufferUse, number>> = {
  storage: 0x80 | 0x08 | 0x04,
  uniform: 0x40 | 0x08,
  read: 0x01 | 0x08,
  resolve: 0x200 | 0x04,
};

export interface BufferPool {
  readonly ledger: BufferLedger;
  /** The most bytes of a buffer of storage: what the device makes and binds whole. */
  readonly mostBytes: number;
  /** Why it gives no more buffers, once it was destroyed. */
  readonly ended: KvError | undefined;
  /**
   * Takes a buffer from the pool.
   *
   * @param not idle buffers to pass over
   * @throws KvError once it was destroyed
   */
  take(bytes: number, kind?: BufferUse, not?: (memory: PooledBuffer) => boolean): PooledBuffer;
  give(memory: PooledBuffer): void;
  /** @param ended what is thrown from now on */
  destroy(ended: KvError): void;
}

/** Returns a size rounded up so that buffers can be reused: powers of two, above 64 KiB in eighths of one. */
export function sizeClass(bytes: number): number {
  const power = 2 ** Math.ceil(Math.log2(Math.max(256, bytes)));
  const step = power > 65_536 ? power / 16 : power;
  return Math.ceil(bytes / step) * step || step;
}

/**
 * Creates a pool that reuses buffers by size instead of freeing them, since Dawn frees only at `destroy()` and a
 * submit. At most `idleBytes` are idle; `beforeDestroy` submits commands that still refer to a buffer to be destroyed.
 */
export function bufferPool(device: GPUDevice, idleBytes: number, beforeDestroy: () => void): BufferPool {
  const idle: PooledBuffer[] = [];
  const all = new Set<GPUBuffer>();
  const ledger = { live: 0, allocated: 0, peak: 0, buffers: 0 };
  let waiting = 0,
    ended: KvError | undefined;
  // a binding is of whole words
  const whole = (bytes: number): number => bytes - (bytes % 4),
    mostBytes = whole(Math.min(device.limits.maxBufferSize, device.limits.maxStorageBufferBindingSize)),
    most = (kind: BufferUse): number => (kind === 'storage' ? mostBytes : whole(device.limits.maxBufferSize));
  const drop = (memory: PooledBuffer): void => {
    memory.buffer.destroy();
    all.delete(memory.buffer);
    ledger.allocated -= memory.bytes;
    ledger.buffers--;
  };
  const pool: BufferPool = {
    ledger,
    mostBytes,
    get ended() {
      return ended;
    },
    take(wanted, kind = 'storage', not) {
      if (ended) throw ended;
      const bytes = Math.min(sizeClass(wanted), most(kind));
      const found = idle.findLastIndex((m) => m.bytes === bytes && m.kind === kind && !not?.(m));
      if (found >= 0) {
        ledger.live += bytes;
        const [memory] = idle.splice(found, 1) as [PooledBuffer];
        waiting -= bytes;
        return { ...memory, wanted, alive: true };
      }
      const buffer = device.createBuffer({ size: bytes, usage: USAGE[kind] });
      all.add(buffer);
      ledger.live += bytes;
      ledger.allocated += bytes;
      ledger.buffers++;
      ledger.peak = Math.max(ledger.peak, ledger.allocated);
      return { buffer, bytes, wanted, kind, pool, alive: true, use: { batch: -1 } };
    },
    give(memory) {
      if (ended || !memory.alive) return;
      memory.alive = false;
      ledger.live -= memory.bytes;
      idle.push(memory);
      waiting += memory.bytes;
      if (waiting > idleBytes) beforeDestroy();
      while (waiting > idleBytes) {
        const oldest = idle.shift()!; // not empty: idle buffers remain
        waiting -= oldest.bytes;
        drop(oldest);
      }
    },
    destroy(error) {
      ended = error;
      for (const buffer of all) buffer.destroy();
      all.clear();
      idle.length = 0;
      Object.assign(ledger, { live: 0, allocated: 0, buffers: 0 });
    },
  };
  return pool;
}

import { KvError } from '@kv/core';
import type { Backend, Tensor } from '@kv/core';
import { deviceCommands } from './commands.ts';
import type { Commands } from './commands.ts';
import { gpuOps } from './gpu-ops.ts';
import { bufferPool } from './buffer-pool.ts';
import type { BufferLedger, PooledBuffer, BufferPool } from './buffer-pool.ts';
import { pipelineCache } from './pipelines.ts';
import { readTensors } from './reader.ts';
import type { DeviceFault } from './reader.ts';
import { recorder, UNIFORM_BYTES } from './recorder.ts';
import type { Counters } from './recorder.ts';
import type { TimingMode, Timing } from './timer.ts';

/** Operations whose tensors are released together. */
export interface Scope extends Backend {
  /** Records kernels that do not belong to pieces, in one order with `ops`. */
  readonly commands: Commands;
  /** Hands a tensor made here, with its lengths, to the enclosing scope. */
  keep(tensor: Tensor): void;
}

/** A scope that lasts until it is ended, or the device destroyed: for weights, or a sequence. */
export interface OpenScope extends Scope {
  /** Releases the scope's tensors. */
  end(): void;
}

/**
 * The device. Tensors that its own `ops` make live until `release()` or `destroy()`; make those of an event in a
 * `scope`.
 */
export interface Gpu extends Backend {
  /** Bytes of buffers. */
  readonly ledger: BufferLedger;
  /** Dispatches, bytes, submits and readbacks so far. */
  readonly counters: Counters;
  /** The WebGPU device. */
  readonly device: GPUDevice;
  /** Whether the adapter runs on the CPU (SwiftShader, lavapipe, WARP): correct, but slower than the CPU backend. */
  readonly software: boolean;
  /** The instance that the device came from, referenced for its lifetime: Node crashes if it is collected first. */
  readonly instance: GPU | undefined;
  /**
   * Runs a function with operations of its own and releases every tensor they made, also on an error, except those it
   * kept.
   */
  scope<T>(run: (scope: Scope) => T | Promise<T>): Promise<T>;
  /** Opens a scope that lasts until its `end()`. */
  open(): OpenScope;
  /**
   * Sets the label under which commands recorded from now on are timed; returns the previous one. Does nothing on a
   * device without timestamps.
   */
  label(name: string): string;
  /**
   * Submits recorded commands and waits for them; returns the times on the device since the last call, longest first.
   * @throws KvError on a device without timestamps
   */
  timings(): Promise<readonly Timing[]>;
  /** Releases every tensor made or kept outside a scope. */
  release(): void;
  /** Frees all buffers, and the device if `openGpu` requested it. */
  destroy(): void;
}

/** What programs and sequences record to: a device, or a plan of one. */
export type Recordable = Pick<Gpu, 'open' | 'scope' | 'label'>;

export interface GpuParts {
  readonly name: string;
  readonly device: GPUDevice;
  /** Whether `destroy` ends the device too. */
  readonly owned: boolean;
  readonly instance: GPU | undefined;
  /** Maximum bytes of idle buffers kept for reuse. */
  readonly idleBytes: number;
  readonly timed: TimingMode | undefined;
}

export function createGpu({ name, device, owned, instance, idleBytes, timed }: GpuParts): Gpu {
  const fault: DeviceFault = { error: undefined };
  const onError = (event: GPUUncapturedErrorEvent): void => {
    // the next read throws it, so the browser need not log it; on a shared device it may be another's error
    if (owned) event.preventDefault();
    fault.error ??= new KvError(
      'gpu',
      event.error.constructor.name === 'GPUOutOfMemoryError'
        ? `a buffer did not fit into the memory of ${name}, where ${pool.ledger.allocated} bytes are allocated (${event.error.message.split('\n')[0]}): open another device, with smaller buffers or fewer`
        : `${name} refused a command ('${event.error.message.split('\n')[0]}'): open another device`,
    );
  };
  device.addEventListener('uncapturederror', onError);
  let destroyed = false;
  void device.lost.then(({ message }) => {
    if (!destroyed)
      fault.error ??= new KvError('gpu', `the device was lost (${message}): open another one; what was on it is gone`);
  });

  const pipelines = pipelineCache(device, UNIFORM_BYTES);
  const record = recorder(device, () => pool, pipelines, timed);
  const pool: BufferPool = bufferPool(device, idleBytes, () => record.submit());
  const shared = { device, pool, pipelines, recorder: record, fault };

  const scopes = new Set<OpenScope>();
  const begin = (): { backend: Backend & Pick<Scope, 'commands'>; memories: Set<PooledBuffer>; end(): void } => {
    const memories = new Set<PooledBuffer>();
    const { commands, own } = deviceCommands(shared, memories);
    const end = (): void => {
      for (const memory of memories) pool.give(memory);
      memories.clear();
    };
    return {
      memories,
      end,
      backend: { name, ops: gpuOps(commands), commands, read: (tensors) => readTensors(tensors, own, shared) },
    };
  };
  const root = begin();
  const { commands: _, ...backend } = root.backend;
  const open = (): OpenScope => {
    const { backend, memories, end } = begin();
    const keep = (tensor: Tensor): void => {
      const { memory } = tensor as { memory?: PooledBuffer };
      if (memory && memories.delete(memory)) root.memories.add(memory);
      if (tensor.lengths) keep(tensor.lengths);
    };
    const scope: OpenScope = {
      ...backend,
      keep,
      end: () => {
        if (scopes.delete(scope)) end();
      },
    };
    scopes.add(scope);
    return scope;
  };
  return {
    ...backend,
    device,
    instance,
    software: device.adapterInfo?.isFallbackAdapter ?? false,
    ledger: pool.ledger,
    counters: record.counters,
    open,
    async scope(run) {
      const scope = open();
      try {
        return await run(scope);
      } finally {
        scope.end();
      }
    },
    label: record.label,
    async timings() {
      if (!record.timer)
        throw new KvError(
          'gpu',
          "expected a device opened with { timestamps: 'kernels' } or 'passes', got one without timestamps",
        );
      if (pool.ended) throw pool.ended;
      record.submit();
      return record.timer.read().catch((error: unknown) => {
        throw fault.error ?? error;
      });
    },
    release: root.end,
    destroy() {
      if (destroyed) return;
      destroyed = true;
      for (const scope of scopes) scope.end();
      root.end();
      device.removeEventListener('uncapturederror', onError);
      fault.error ??= new KvError('gpu', 'the backend was destroyed: open another one');
      pool.destroy(fault.error);
      record.timer?.destroy();
      device.queue.submit([]); // Dawn frees destroyed buffers at a submit
      if (owned) device.destroy();
    },
  };
}

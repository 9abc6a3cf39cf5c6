import { grid } from './grid.ts';
import type { PooledBuffer, BufferPool } from './buffer-pool.ts';
import type { ComputePipeline, Pipelines } from './pipelines.ts';
import { createTimer, type TimingMode, type Timer } from './timer.ts';

/** Counts of commands so far. */
export interface Counters {
  readonly dispatches: number;
  readonly submits: number;
  readonly readbacks: number;
  /**
   * Bytes that dispatches read and wrote: those of the tensors that they bound, each once per dispatch, unless a kernel
   * counts more precisely.
   */
  readonly bytes: number;
}

/** Bytes of one dispatch's scalars: the alignment that every adapter supports. */
export const UNIFORM_BYTES = 256;
/** Maximum dispatches per submit, and dispatches whose scalars share a buffer. */
const BATCH = 2048,
  PAGE = 256;
/** Maximum bytes of writes that wait for a submit: the driver holds a copy of them until then. */
const WAITING = 2 ** 26;

export interface CommandRecorder {
  readonly counters: { -readonly [K in keyof Counters]: Counters[K] };
  dispatch(
    pipeline: ComputePipeline,
    memories: readonly PooledBuffer[],
    scalars: Uint32Array,
    groups: number,
    bytes: number,
  ): void;
  copy(from: PooledBuffer, to: PooledBuffer, offset: number, bytes: number): void;
  /** Whether commands that wait for a submit use the buffer. */
  waits(memory: PooledBuffer): boolean;
  /** Writes host numbers into a buffer, `at` bytes from its start, after all commands recorded so far that used it. */
  write(to: PooledBuffer, data: Float32Array | Uint32Array, at?: number): void;
  submit(): void;
  /** Present if passes are timed. */
  readonly timer: Timer | undefined;
  /** Sets the label under which commands recorded from now on are timed; returns the previous one. */
  label(name: string): string;
}

/**
 * Creates a recorder with one open command encoder and one compute pass; the scalars of its dispatches are uploaded in
 * a few writes before the submit.
 */
export function recorder(
  device: GPUDevice,
  pool: () => BufferPool,
  pipelines: Pipelines,
  timed?: TimingMode,
): CommandRecorder {
  const counters = { dispatches: 0, submits: 0, readbacks: 0, bytes: 0 };
  const pages: {
    readonly memory: PooledBuffer;
    readonly group: GPUBindGroup;
    readonly values: Uint32Array<ArrayBuffer>;
  }[] = [];
  let encoder: GPUCommandEncoder | undefined, pass: GPUComputePassEncoder | undefined;
  let batch = 0,
    used = 0,
    waiting = 0;
  const timer = timed && createTimer(device, pool, timed, BATCH);
  const endPass = (): void => {
    pass?.end();
    pass = undefined;
  };

  const page = (): (typeof pages)[number] => {
    const at = Math.floor(used / PAGE);
    if (!pages[at]) {
      const values = new Uint32Array((PAGE * UNIFORM_BYTES) / 4),
        memory = pool().take(values.byteLength, 'uniform');
      pages[at] = {
        memory,
        values,
        group: device.createBindGroup({
          layout: pipelines.uniform,
          entries: [{ binding: 0, resource: { buffer: memory.buffer, size: UNIFORM_BYTES } }],
        }),
      };
    }
    return pages[at];
  };
  const self: CommandRecorder = {
    counters,
    timer,
    dispatch({ pipeline, layout }, memories, scalars, groups, bytes) {
      if (used === BATCH) self.submit();
      const { group, values } = page(),
        offset = (used % PAGE) * UNIFORM_BYTES;
      values.set(scalars, offset / 4);
      encoder ??= device.createCommandEncoder();
      if (pass) timer?.count();
      else pass = encoder.beginComputePass(timer?.begin(pipeline.label));
      pass.setPipeline(pipeline);
      pass.setBindGroup(
        0,
        device.createBindGroup({
          layout,
          entries: memories.map(({ buffer }, binding) => ({ binding, resource: { buffer } })),
        }),
      );
      pass.setBindGroup(1, group, [offset]);
      pass.dispatchWorkgroups(...grid(groups, device.limits.maxComputeWorkgroupsPerDimension));
      if (timer?.timed === 'kernels') endPass();
      for (const { use } of memories) use.batch = batch;
      used++;
      counters.dispatches++;
      counters.bytes += bytes;
    },
    copy(from, to, offset, bytes) {
      encoder ??= device.createCommandEncoder();
      endPass();
      encoder.copyBufferToBuffer(from.buffer, 0, to.buffer, offset, bytes);
      from.use.batch = to.use.batch = batch;
    },
    waits: ({ use }) => use.batch === batch,
    write(to, data, at = 0) {
      // a queue write would run before commands that are recorded but not submitted
      if (self.waits(to)) self.submit();
      device.queue.writeBuffer(to.buffer, at, data as Float32Array<ArrayBuffer> | Uint32Array<ArrayBuffer>);
      if ((waiting += data.byteLength) < WAITING) return;
      device.queue.submit([]);
      waiting = 0;
    },
    submit() {
      if (!encoder) return;
      endPass();
      const submitted = timer?.end(encoder);
      for (const [i, { memory, values }] of pages.entries())
        if (used > i * PAGE)
          device.queue.writeBuffer(memory.buffer, 0, values, 0, (Math.min(PAGE, used - i * PAGE) * UNIFORM_BYTES) / 4);
      device.queue.submit([encoder.finish()]);
      submitted?.();
      encoder = undefined;
      used = 0;
      batch++;
      counters.submits++;
      for (const { memory } of pages.splice(1)) pool().give(memory);
    },
    label(name) {
      if (!timer) return '';
      const { label } = timer;
      if (label !== name) endPass();
      timer.label = name;
      return label;
    },
  };
  return self;
}

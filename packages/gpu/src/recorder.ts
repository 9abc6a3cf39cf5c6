import { grid } from './grid.ts';
import type { Memory, Pool } from './memory.ts';
import type { Pipeline, Pipelines } from './pipelines.ts';

/** What happened so far. */
export interface Counters { readonly dispatches: number; readonly submits: number; readonly readbacks: number }

/** Bytes of one dispatch's scalars: the alignment that every adapter grants. */
export const UNIFORM_BYTES = 256;
/** Dispatches of one submit at most. */
const BATCH = 256;
/** Bytes of writes that may wait for a submit: the driver holds a copy of them until then. */
const WAITING = 2 ** 26;

export interface Recorder {
  readonly counters: { dispatches: number; submits: number; readbacks: number };
  dispatch(pipeline: Pipeline, memories: readonly Memory[], scalars: Uint32Array, groups: number): void;
  copy(from: Memory, to: Memory, offset: number, bytes: number): void;
  /** Host numbers into a buffer, `at` bytes from its start, after everything recorded so far that used it. */
  write(to: Memory, data: Float32Array | Uint32Array, at?: number): void;
  submit(): void;
}

/** One open command encoder with one compute pass; the scalars of all its dispatches go up in one write before the submit. */
export function recorder(device: GPUDevice, pool: () => Pool, pipelines: Pipelines): Recorder {
  const counters = { dispatches: 0, submits: 0, readbacks: 0 };
  const values = new Uint32Array((BATCH * UNIFORM_BYTES) / 4);
  let uniform: { readonly memory: Memory; readonly group: GPUBindGroup } | undefined;
  let encoder: GPUCommandEncoder | undefined, pass: GPUComputePassEncoder | undefined;
  let batch = 0, used = 0, waiting = 0;

  const uniformGroup = (): NonNullable<typeof uniform> => {
    if (!uniform) {
      const memory = pool().take(values.byteLength, 'uniform');
      uniform = { memory, group: device.createBindGroup({ layout: pipelines.uniform, entries: [{ binding: 0, resource: { buffer: memory.buffer, size: UNIFORM_BYTES } }] }) };
    }
    return uniform;
  };
  const self: Recorder = {
    counters,
    dispatch({ pipeline, layout }, memories, scalars, groups) {
      if (used === BATCH) self.submit();
      const { group } = uniformGroup();
      values.set(scalars, (used * UNIFORM_BYTES) / 4);
      encoder ??= device.createCommandEncoder();
      pass ??= encoder.beginComputePass();
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, device.createBindGroup({ layout, entries: memories.map(({ buffer }, binding) => ({ binding, resource: { buffer } })) }));
      pass.setBindGroup(1, group, [used * UNIFORM_BYTES]);
      pass.dispatchWorkgroups(...grid(groups, device.limits.maxComputeWorkgroupsPerDimension));
      for (const { use } of memories) use.batch = batch;
      used++;
      counters.dispatches++;
    },
    copy(from, to, offset, bytes) {
      encoder ??= device.createCommandEncoder();
      pass?.end();
      pass = undefined;
      encoder.copyBufferToBuffer(from.buffer, 0, to.buffer, offset, bytes);
      from.use.batch = to.use.batch = batch;
    },
    write(to, data, at = 0) {
      // a queue write overtakes commands that are recorded but not submitted
      if (to.use.batch === batch) self.submit();
      device.queue.writeBuffer(to.buffer, at, data as Float32Array<ArrayBuffer> | Uint32Array<ArrayBuffer>);
      if ((waiting += data.byteLength) < WAITING) return;
      device.queue.submit([]);
      waiting = 0;
    },
    submit() {
      if (!encoder) return;
      pass?.end();
      if (used > 0) device.queue.writeBuffer(uniformGroup().memory.buffer, 0, values, 0, (used * UNIFORM_BYTES) / 4);
      device.queue.submit([encoder.finish()]);
      encoder = pass = undefined;
      used = 0;
      batch++;
      counters.submits++;
    },
  };
  return self;
}

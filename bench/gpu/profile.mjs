import { openGpu } from '@kv/gpu';
import { gpuRuntime } from '@kv/engine-webgpu';
import { decode, Sequence } from '@kv/models';
import { policy } from '@kv/policies';
import { randomModel } from './shapes.mjs';

/**
 * Measures device time by its own clock, with one pass per dispatch: kernels of prefill and of a token, and the share
 * of score, select and compact in a prefill with one event at its end. Views evict nothing: they have no budget.
 */
export async function profileOf(shape, { type, half }, { tokens, length, budget }) {
  const gpu = await openGpu({ timestamps: 'kernels' }),
    phases = [];
  try {
    const model = await randomModel(shape, type, gpuRuntime(gpu, { half })),
      ids = Array.from({ length }, (_, i) => (7919 * i) % model.config.vocab);
    const slots = Math.min(budget, length / 4);
    for (const [name, chosen, { every, ...evicted }] of [
      ['snapkv', policy('snapkv', { window: 32 }), { budget: slots }],
      ['streaming', policy('streaming'), { budget: slots, every: 16 }],
      ['h2o', policy('h2o'), { budget: slots, every: 16 }],
      ['psaw', policy('psaw', { phi: 0.5 }), {}],
      ['quest', policy('quest', { slots: Math.min(512, slots) }), {}],
      ['doubleSparsity', policy('doubleSparsity', { slots: Math.min(512, slots) }), {}],
    ]) {
      const sequence = new Sequence(model),
        timed = async (of, count) => {
          phases.push({ policy: name, of, tokens: count, ...summed(await gpu.timings()) });
        };
      try {
        await gpu.timings();
        await sequence.prefill(ids, { policy: chosen, ...evicted, block: length });
        await timed('prefill', length);
        for await (const _ of decode(sequence, { maxNewTokens: tokens + 1, every, stopAtEos: false }));
        await timed('decode', tokens);
      } finally {
        sequence.destroy();
      }
    }
    model.destroy();
  } finally {
    gpu.destroy();
  }
  return { kind: 'profile', shape: shape.name, type, half, length, phases };
}

function summed(timings) {
  const sum = (list) => list.reduce((n, { nanoseconds }) => n + nanoseconds, 0),
    kernels = new Map();
  for (const { kernel, nanoseconds, dispatches } of timings) {
    const key = kernel.split(':').slice(0, 3).join(':'),
      found = kernels.get(key) ?? { kernel: key, ms: 0, dispatches: 0 };
    kernels.set(key, { kernel: key, ms: found.ms + nanoseconds / 1e6, dispatches: found.dispatches + dispatches });
  }
  return {
    ms: sum(timings) / 1e6,
    eventMs: sum(timings.filter(({ label }) => label === 'event')) / 1e6,
    kernels: [...kernels.values()].sort((a, b) => b.ms - a.ms).slice(0, 12),
  };
}

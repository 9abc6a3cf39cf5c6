import { compose, onCompact, weightScorer } from '@kv/core';
import type { Gpu } from '@kv/gpu';
import { generate, loadModel, Sequence } from '@kv/models';
import type { GenerateOptions, Model } from '@kv/models';
import { topK } from '@kv/selectors-top-k';
import { expect } from 'vitest';
import { gpuRuntime } from '../src/index.ts';
import { gpuTests } from './device.ts';
import { fixture } from './sequences.ts';

const gpuTest = await gpuTests();
const IDS = Array.from({ length: 24 }, (_, i) => (i * 37 + 11) % 64);

/** Bytes that are in use; buffers of the pool wait to be used again. */
const used = ({ ledger: { live } }: Gpu): number => live;

/** A model on the device, and what was in use once its kernels and its embedding were there. */
async function warm(gpu: Gpu): Promise<{ readonly model: Model; readonly before: ReturnType<typeof used> }> {
  const model = await loadModel(fixture('llama'), { runtime: gpuRuntime(gpu) });
  await generate(model, { ids: IDS, maxNewTokens: 4 });
  return { model, before: used(gpu) };
}

gpuTest('a generation on a device that is left early frees all of its buffers', async (gpu) => {
  const { model, before } = await warm(gpu),
    options: GenerateOptions = { ids: IDS, maxNewTokens: 12, stopAtEos: false };
  const buffers: number[] = [];
  for (let i = 0; i < 9; i++) {
    for await (const _ of generate(model, options)) break;
    buffers.push(gpu.ledger.buffers);
  }
  expect(used(gpu)).toEqual(before);
  expect(buffers.at(-1)).toBe(buffers[2]); // no more than the pool has after a few
  await expect(
    (async () => {
      for await (const _ of generate(model, options)) throw new Error('enough');
    })(),
  ).rejects.toThrow('enough');
  const abort = new AbortController();
  for await (const _ of generate(model, { ...options, signal: abort.signal })) abort.abort();
  await expect(generate(model, { ...options, certify: { row: () => {}, conclude: () => ({}) } })).rejects.toThrow(
    'certify: expected a cache on the host',
  );
  expect(used(gpu)).toEqual(before);
  const generation = generate(model, options),
    all = (async () => {
      const tokens: (number | undefined)[] = [];
      for await (const { token } of generation) tokens.push(token);
      return tokens;
    })();
  expect((await generation).tokens).toEqual(await all);
  expect(used(gpu)).toEqual(before);
  model.destroy();
});

gpuTest(
  'an error or an abort in the middle of a block on a device is remembered, and all is given back',
  async (gpu) => {
    const { model, before } = await warm(gpu),
      fails = onCompact('test.fails', {}, ({ at }) => {
        if (at.layer === 1) throw new Error('out of memory');
        return {};
      }),
      even = weightScorer('test.even', {}, ({ ops, at }) => ({
        scores: ops.from({ data: new Float32Array(at.slots).fill(1), shape: [1, at.slots] }),
      }));
    const policy = compose(even(), topK(), fails());
    for (const block of [8, undefined]) {
      const sequence = new Sequence(model);
      await expect(sequence.prefill(IDS, { policy, budget: 6, block })).rejects.toThrow('out of memory');
      await expect(sequence.step(1)).rejects.toThrow(/^sequence: is unusable: it failed during .*out of memory/);
      sequence.destroy();
      expect(used(gpu)).toEqual(before);
    }
    const abort = new AbortController(),
      aborted = new Sequence(model);
    setImmediate(() => setImmediate(() => abort.abort()));
    await expect(aborted.prefill(IDS, { signal: abort.signal })).rejects.toThrow('This operation was aborted');
    expect(() => aborted.kept()).toThrow(
      /^sequence: is unusable: it failed during a block: This operation was aborted/,
    );
    aborted.destroy();
    aborted.destroy();
    await expect(aborted.next()).rejects.toThrow('sequence: was destroyed: start a new one');
    expect(used(gpu)).toEqual(before);
    model.destroy();
  },
);

gpuTest('a sequence that is destroyed while a block is recorded gives everything back', async (gpu) => {
  const { model, before } = await warm(gpu),
    abort = new AbortController(),
    sequence = new Sequence(model),
    fed = sequence.prefill(IDS, { signal: abort.signal });
  setImmediate(() => sequence.destroy());
  await expect(fed).rejects.toThrow('sequence: was destroyed: start a new one');
  expect(used(gpu)).toEqual(before);
  model.destroy();
});

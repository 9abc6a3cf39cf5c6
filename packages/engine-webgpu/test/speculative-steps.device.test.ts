import { hide } from '@kv/core';
import type { Gpu } from '@kv/gpu';
import { openGpu } from '@kv/gpu';
import { decode, generate, loadModel, Sampler, Sequence, slotScores } from '@kv/models';
import type { Chunk, DecodeOptions } from '@kv/models';
import { policy } from '@kv/policies';
import { inTurn } from '@kv/model-testing/in-turn';
import { expect } from 'vitest';
import { gpuRuntime } from '../src/index.ts';
import { gpuTests } from './device.ts';
import { both, fixture, onDevice, said } from './sequences.ts';

const gpuTest = await gpuTests();
const ids = (n: number): number[] => Array.from({ length: n }, (_, i) => (i * 37 + 11) % 64);
const streaming = policy('streaming');
const narrow = hide(
  'narrow',
  { source: 'this test', says: 'The last 5.', during: 'both' },
  ({ at: { length, slots, step, promptLength } }) => ({
    lower: () => (length + slots + promptLength + step) / 3 - 5, // three times the length
  }),
)();

gpuTest(
  'steps ahead of their tokens change nothing but when they start: tokens, kept sets, bytes, counts, submits and read-backs',
  (gpu) =>
    both(gpu, fixture('llama'), async (host, device) => {
      const ways = [
        {},
        { policy: streaming, budget: 16, every: 3 },
        { policy: policy('h2o', { recent: 4 }), budget: 16, every: 4 },
        { policy: narrow },
      ];
      for (const more of inTurn(ways, 2)) {
        const options = { ids: ids(24), maxNewTokens: 9, ...more },
          want = await generate(host, options);
        for (const inFlight of [1, 3]) {
          const got = await onDevice(gpu, device, { ...options, inFlight }, ({ events = 0 }) => events);
          expect([got.tokens, said(got.report)]).toEqual([want.tokens, said(want.report)]);
        }
      }
      const drawn = async (inFlight: number): Promise<readonly number[]> =>
        (
          await onDevice(
            gpu,
            device,
            { ids: ids(9), maxNewTokens: 12, temperature: 1.5, topP: 0.9, seed: 5, inFlight },
            () => 0,
          )
        ).tokens;
      expect(await drawn(3)).toEqual(await drawn(1));
    }),
);

/** Submits by the time that each token is given. */
async function submitsBy(gpu: Gpu, sequence: Sequence, options: DecodeOptions): Promise<number[]> {
  const before = gpu.counters.submits,
    out: number[] = [];
  for await (const _ of decode(sequence, { stopAtEos: false, ...options })) out.push(gpu.counters.submits - before);
  return out;
}

gpuTest(
  'a step is in flight when its token is given, but where storage grows, an event follows or the policy reads of every token',
  (gpu) =>
    both(gpu, fixture('llama'), async (_, device) => {
      const run = async (prompt: number, options: DecodeOptions, policy?: typeof streaming): Promise<number[]> => {
        const sequence = new Sequence(device);
        await sequence.prefill(ids(prompt), policy ? { policy, budget: 16 } : {});
        const out = await submitsBy(gpu, sequence, { maxNewTokens: 7, ...options });
        sequence.destroy();
        return out.map((n, i) => n - i - 1); // reads that the tokens so far did not need
      };
      expect(await run(16, { inFlight: 1 })).toEqual([0, 0, 0, 0, 0, 0, 0]);
      // capacity 16, then 20, then 25; no step is started that is not asked for
      expect(await run(16, {})).toEqual([0, 1, 1, 1, 0, 1, 0]);
      expect(await run(16, { inFlight: 3 })).toEqual([0, 2, 2, 1, 0, 1, 0]);
      // an event is read with the third and the sixth step, which are not started ahead
      expect(await run(24, { every: 3 }, streaming)).toEqual([1, 1, 0, 1 + 1, 1 + 1, 1, 2]);
      expect(await run(16, {}, narrow)).toEqual([0, 1, 1, 1, 0, 1, 0]); // its bounds need the position alone
      expect(await run(16, {}, policy('quest', { page: 4, slots: 16 }))).toEqual([0, 0, 0, 0, 0, 0, 0]);
    }),
);

/** What can be seen of a sequence. */
const seen = (sequence: Sequence): object => ({
  kept: sequence.kept(),
  bytes: sequence.memory.ledger.bytes(),
  length: sequence.progress.length,
  text: sequence.progress.text.text,
  mostSlots: sequence.memory.progress.mostSlots,
  counters: { ...sequence.memory.caches.context.counters },
  counts: { ...sequence.stats.counts, rolledBack: 0 },
});

const keydiff = policy('keydiff'),
  draw = new Sampler({ temperature: 1.5, topP: 0.9, seed: 3 });
/** What may be asked of a sequence while steps are in flight. */
const actions: Readonly<Record<string, (sequence: Sequence) => Promise<unknown>>> = {
  'goes on': async () => {},
  append: (sequence) => sequence.append([5, 6, 7]),
  'another token': (sequence) => sequence.step(9),
  evict: (sequence) => sequence.evict(keydiff, 5),
  prefill: (sequence) => sequence.prefill([1, 2, 3]),
  'another draw': (sequence) => sequence.next(draw),
  'another policy': async (sequence) => sequence.decodeUnder(keydiff, 6),
  scores: (sequence) => slotScores(sequence, keydiff, 0),
  fork: async (sequence) => {
    const fork = sequence.fork();
    await fork.append([8]);
    const out = [await fork.next(), seen(fork)];
    fork.destroy();
    return out;
  },
};

gpuTest('what ran ahead shows nowhere, and is rolled back by whatever comes instead', (gpu) =>
  both(gpu, fixture('llama'), async (_, device) => {
    const went = async (
      ahead: number,
      act: (sequence: Sequence) => Promise<unknown>,
      { every, ...options }: { readonly every?: number },
    ): Promise<{ at: unknown[]; taken: number }> => {
      const sequence = new Sequence(device),
        at: unknown[] = [];
      await sequence.prefill(ids(16), options);
      for (const tokens of [3, 4]) {
        for (let made = 0; made < tokens; made++) {
          const token = await sequence.next(undefined, { ahead, every });
          at.push({ token, ...seen(sequence) });
          if (made + 1 < tokens) await sequence.step(token, every);
        }
        at.push(await act(sequence), await sequence.logits(), seen(sequence));
      }
      const taken = sequence.stats.counts.rolledBack;
      sequence.destroy();
      return { at, taken };
    };
    for (const [i, [name, act]] of inTurn([...Object.entries(actions).entries()], 3)) {
      const options = i % 2 === 0 ? {} : { policy: streaming, budget: 10, every: 5 },
        want = await went(0, act, options),
        got = await went(2, act, options);
      expect(got.at, name).toEqual(want.at);
      expect(want.taken).toBe(0);
      if (!['goes on', 'fork'].includes(name)) expect(got.taken, name).toBeGreaterThan(0);
    }
  }),
);

gpuTest(
  'a stop string and an abort with steps in flight: what they gave is as on the host, and what ran ahead is counted',
  (gpu) =>
    both(gpu, fixture('llama'), async (host, device) => {
      const options = { ids: ids(12), maxNewTokens: 20 },
        whole = await generate(host, options),
        stop = [whole.text.slice(10, 12)],
        before = { ...gpu.counters };
      const want = await generate(host, { ...options, stop }),
        got = await generate(device, { ...options, stop, inFlight: 3 }),
        { rolledBack = 0, ...counts } = got.report.counts;
      expect([
        got.text,
        got.tokens,
        got.report.finish,
        got.report.kept,
        got.report.bytes,
        { rolledBack: 0, ...counts },
      ]).toEqual([want.text, want.tokens, 'stop', want.report.kept, want.report.bytes, want.report.counts]);
      expect(rolledBack).toBeGreaterThan(0);
      expect(rolledBack).toBeLessThanOrEqual(2);
      expect([gpu.counters.readbacks - before.readbacks, gpu.counters.submits - before.submits]).toEqual([
        got.tokens.length + rolledBack,
        got.tokens.length + rolledBack,
      ]);
      const abort = new AbortController(),
        chunks: Chunk[] = [],
        sequence = new Sequence(device);
      await sequence.prefill(options.ids);
      for await (const chunk of decode(sequence, { signal: abort.signal, stopAtEos: false }))
        if (chunks.push(chunk) === 5) abort.abort();
      expect(chunks.map(({ token }) => token)).toEqual(whole.tokens.slice(0, 5));
      expect(sequence.progress.length).toBe(17); // the fifth was fed before the abort was seen
      sequence.destroy();
    }),
);

gpuTest('a device that is lost with steps in flight: one clear error, and nothing is left', async () => {
  // not the file's device, which the other tests need
  const gpu = await openGpu(),
    model = await loadModel(fixture('llama'), { runtime: gpuRuntime(gpu) }),
    sequence = new Sequence(model);
  await sequence.prefill(ids(5));
  let given = 0;
  await expect(
    (async () => {
      for await (const _ of decode(sequence, { inFlight: 4, stopAtEos: false }))
        if (++given === 3) gpu.device.destroy();
    })(),
  ).rejects.toThrow(/^gpu: the device was lost \(.*\): open another one; what was on it is gone$/);
  expect(given).toBeGreaterThanOrEqual(3);
  sequence.destroy();
  model.destroy();
  gpu.destroy();
  expect(gpu.ledger).toMatchObject({ live: 0, allocated: 0, buffers: 0 });
});

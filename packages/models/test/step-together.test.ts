import { compose, cadence } from '@kv/core';
import { h2o, snapkv, streaming } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { hostRuntime, loadModel, Sequence } from '../src/index.ts';
import { linearEngine, referenceLinear, simdLinear, stepTogether } from '@kv/engine';
import type { HostModel } from '../src/index.ts';
import type { DecoderLayer, HostRunnable } from '@kv/engine';

let models: readonly HostModel[];
beforeAll(async () => {
  models = await Promise.all(
    [simdLinear(), referenceLinear].map((linear) =>
      loadModel('embedded', { runtime: hostRuntime({ engine: linearEngine(linear) }) }),
    ),
  );
});

const policies = [
  undefined,
  compose(snapkv({ window: 4 }), topK()),
  compose(h2o(), topK(), cadence({ every: 2 })),
  compose(streaming({ sinks: 2 }), topK()),
];
const member = fc.record({
  prompt: fc.array(fc.nat(1023), { minLength: 1, maxLength: 24 }),
  policy: fc.nat(policies.length - 1),
  tokens: fc.array(fc.nat(1023), { minLength: 1, maxLength: 4 }),
});

async function started(
  model: HostModel,
  { prompt, policy: p }: { prompt: number[]; policy: number },
): Promise<Sequence> {
  const sequence = new Sequence(model),
    policy = policies[p];
  await sequence.prefill(prompt, policy && { policy, budget: 8 });
  return sequence;
}

test('what a sequence gives in a batch is what it gives alone, to the bit, whoever is beside it', async () => {
  for (const [i, model] of models.entries())
    await fc.assert(
      fc.asyncProperty(fc.array(member, { minLength: 1, maxLength: 9 }), async (members) => {
        const [alone, together] = [
          await Promise.all(members.map((each) => started(model, each))),
          await Promise.all(members.map((each) => started(model, each))),
        ];
        for (let step = 0; step < 4; step++) {
          const going = members.flatMap(({ tokens, policy }, n) =>
            step < tokens.length ? [{ n, token: tokens[step], every: policy === 2 ? 2 : undefined }] : [],
          );
          const failed = await stepTogether(going.map(({ n, ...rest }) => ({ sequence: together[n], ...rest })));
          expect(failed.every((error) => error === undefined)).toBe(true);
          for (const { n, token, every } of going) {
            await alone[n].step(token, every);
            expect(together[n].logits[0]).toEqual(alone[n].logits[0]);
            expect(together[n].kept()).toEqual(alone[n].kept());
          }
        }
        for (const sequence of [...alone, ...together]) {
          sequence.destroy();
          expect(sequence.ledger.allocated).toBe(0);
        }
      }),
      { numRuns: i === 0 ? 12 : 3 },
    );
});

test('products are taken once for all', async () => {
  const [model] = models,
    all = await Promise.all([1, 2, 3].map((n) => started(model, { prompt: [n, 5, n], policy: 0 })));
  const { rows } = model.decoder,
    calls = { layers: 0 };
  const counted = {
    ...model.decoder.layers[0].finish,
    run: (...given: Parameters<(typeof model.decoder.layers)[0]['finish']['run']>) => {
      calls.layers++;
      return original(...given);
    },
  };
  const original = model.decoder.layers[0].finish.run,
    layers = model.decoder.layers as DecoderLayer<HostRunnable>[],
    before = rows.qkv[0],
    was = layers[0];
  layers[0] = { ...was, finish: counted };
  try {
    await stepTogether(all.map((sequence) => ({ sequence, token: 7 })));
  } finally {
    layers[0] = was;
  }
  expect([calls.layers, rows.qkv[0] - before]).toEqual([1, 3]);
  for (const sequence of all) sequence.destroy();
});

test('one that fails does not hold the others up', async () => {
  const [model] = models,
    [a, broken, b, own] = await Promise.all([1, 2, 3, 3].map((n) => started(model, { prompt: [n, 9, n], policy: 0 })));
  broken.destroy();
  const failed = await stepTogether([a, broken, b].map((sequence) => ({ sequence, token: 11 })));
  await own.step(11);
  expect(failed.map((error) => error?.message)).toEqual([
    undefined,
    'sequence: expected one that was not destroyed, got one that was',
    undefined,
  ]);
  expect(b.logits[0]).toEqual(own.logits[0]);
  for (const sequence of [a, b, own]) sequence.destroy();
});

test('a prompt in parts ends where the whole one does, with the same events', async () => {
  const [model] = models,
    ids = Array.from({ length: 90 }, (_, i) => (i * 37) % 1024);
  for (const policy of policies.slice(1))
    for (const block of [undefined, 40]) {
      const [whole, parts] = [new Sequence(model), new Sequence(model)],
        fed: number[] = [];
      await whole.prefill(ids, { policy: policy!, budget: 16, block });
      for await (const n of parts.prefilling(ids, { policy: policy!, budget: 16, block, part: 16 })) fed.push(n);
      expect(fed).toEqual(block ? [16, 32, 40, 56, 72, 80, 90] : [16, 32, 48, 64, 80, 90]);
      expect(parts.counts.blocks).toBe(whole.counts.blocks);
      expect(parts.promptLength).toBe(90);
      expect(parts.kept()).toEqual(whole.kept());
      parts.logits[0].forEach((x, i) => expect(Math.abs(x - whole.logits[0][i])).toBeLessThan(1e-3));
      for (const sequence of [whole, parts]) sequence.destroy();
    }
});

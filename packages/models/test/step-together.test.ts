import { compose, cadence } from '@kv/core';
import { h2o, snapkv, streaming } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { decode, decodeTogether, loadModel, Sequence } from '../src/index.ts';
import { stepTogether } from '@kv/engine';
import type { HostModel } from '../src/index.ts';

let model: HostModel;
beforeAll(async () => {
  model = await loadModel('embedded');
});

const policies = [
  compose(snapkv({ window: 4 }), topK()),
  compose(h2o(), topK(), cadence({ every: 2 })),
  compose(streaming({ sinks: 2 }), topK()),
];
async function started(prompt: readonly number[]): Promise<Sequence> {
  const sequence = new Sequence(model);
  await sequence.prefill([...prompt]);
  return sequence;
}

test('one that fails does not hold the others up', async () => {
  const [a, broken, b, own] = await Promise.all([1, 2, 3, 3].map((n) => started([n, 9, n])));
  broken.destroy();
  const failed = await stepTogether([a, broken, b].map((sequence) => ({ sequence, token: 11 })));
  await own.step(11);
  expect(failed.map((error) => error?.message)).toEqual([
    undefined,
    'sequence: was destroyed: start a new one',
    undefined,
  ]);
  expect((await b.logits())[0]).toEqual((await own.logits())[0]);
  for (const sequence of [a, b, own]) sequence.destroy();
});

test('a prompt in parts ends where the whole one does, with the same events', async () => {
  const ids = Array.from({ length: 90 }, (_, i) => (i * 37) % 1024);
  for (const policy of policies)
    for (const block of [undefined, 40]) {
      const [whole, parts] = [new Sequence(model), new Sequence(model)],
        fed: number[] = [];
      await whole.prefill(ids, { policy, budget: 16, block });
      for await (const n of parts.prefillParts(ids, { policy, budget: 16, block, part: 16 })) fed.push(n);
      expect(fed).toEqual(block ? [16, 32, 40, 56, 72, 80, 90] : [16, 32, 48, 64, 80, 90]);
      expect(parts.stats.counts.blocks).toBe(whole.stats.counts.blocks);
      expect(parts.progress.promptLength).toBe(90);
      expect(parts.kept()).toEqual(whole.kept());
      const [[row], [want]] = [await parts.logits(), await whole.logits()];
      row.forEach((x, i) => expect(Math.abs(x - want[i])).toBeLessThan(1e-3));
      for (const sequence of [whole, parts]) sequence.destroy();
    }
});

test('generates for each of several sequences what it generates alone; one that fails fails alone', async () => {
  const ids = fc.array(fc.integer({ min: 0, max: 1023 }), { minLength: 9, maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(ids, fc.constantFrom(undefined, ...policies)), { maxLength: 5 }),
      fc.record({
        maxNewTokens: fc.integer({ min: 0, max: 9 }),
        stop: fc.subarray(['e', ' the', '.'], { maxLength: 1 }),
        temperature: fc.constantFrom(0, 1),
        seed: fc.integer({ min: 0, max: 99 }),
      }),
      fc.nat(9),
      async (prompts, options, broken) => {
        const opened = (): Promise<readonly Sequence[]> =>
          Promise.all(
            prompts.map(async ([prompt, policy]) => {
              const sequence = new Sequence(model);
              await sequence.prefill(prompt, policy && { policy, budget: 8 });
              return sequence;
            }),
          );
        const [together, alone] = [await opened(), await opened()];
        together[broken]?.destroy();
        const results = await decodeTogether(together, options);
        expect(results).toHaveLength(prompts.length);
        for (const [i, result] of results.entries()) {
          if (i === broken) {
            if (options.maxNewTokens > 0) expect(result.status).toBe('rejected');
            continue;
          }
          const chunks = decode(alone[i], options),
            want = { text: '', tokens: [] as number[] };
          let next = await chunks.next();
          for (; !next.done; next = await chunks.next()) {
            if (next.value.token !== undefined) want.tokens.push(next.value.token);
            want.text += next.value.text;
          }
          expect(result).toEqual({ status: 'fulfilled', value: { ...want, finish: next.value } });
          expect(together[i].kept()).toEqual(alone[i].kept());
        }
        for (const sequence of [...together, ...alone]) sequence.destroy();
      },
    ),
    { numRuns: 40 },
  );
});

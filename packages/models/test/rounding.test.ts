import fc from 'fast-check';
import { certificates, roundingVariation, type Certificates } from '@kv/certificates';
import {
  cacheForms,
  createRows,
  decodeRows,
  encodeRows,
  LayerCache,
  Ledger,
  roundingBound,
  type CacheForm,
} from '@kv/engine';
import { LEVELS } from '@kv/core';
import { reference } from '@kv/model-testing/reference';
import { expect, test } from 'vitest';
import { decode, generate, loadCache, loadModel, saveCache, Sequence } from '../src/index.ts';

const forms = (Object.keys(cacheForms) as CacheForm[]).filter((form) => form !== 'f32');
const number = fc.oneof(fc.double({ min: -4, max: 4, noNaN: true }), fc.constantFrom(0, 1e-7, -300, 40_000));
const vectors = (count: number, d: number): fc.Arbitrary<Float32Array> =>
  fc.array(number, { minLength: count * d, maxLength: count * d }).map((all) => Float32Array.from(all));

/** Softmax of inner products with keys `[n, d]` over sqrt(d), in float64. */
function weightsOf(q: Float32Array, keys: Float32Array): number[] {
  const d = q.length,
    logits = Array.from({ length: keys.length / d }, (_, j) =>
      q.reduce((sum, x, c) => sum + (x * keys[j * d + c]) / Math.sqrt(d), 0),
    ),
    top = Math.max(...logits),
    all = logits.map((x) => Math.exp(x - top)),
    total = all.reduce((a, b) => a + b, 0);
  return all.map((x) => x / total);
}

test('no row lies farther from what it stores than its scales say, and no weights move more than that allows', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...forms),
      fc.integer({ min: 1, max: 6 }).chain((n) => fc.tuple(vectors(n, 64), vectors(1, 64))),
      (form, [x, q]) => {
        const d = 64,
          n = x.length / d;
        for (const part of ['keys', 'values'] as const) {
          const rows = createRows(cacheForms[form][part], d, n),
            back = new Float32Array(n * d);
          encodeRows(rows, d, 0, x);
          decodeRows(rows, d, 0, n, back);
          const bound = roundingBound(rows, d, 0, n);
          for (let r = 0; r < n; r++)
            expect(
              Math.hypot(...Array.from({ length: d }, (_, c) => x[r * d + c] - back[r * d + c])),
            ).toBeLessThanOrEqual(bound);
          const small = q.map((y) => y / 100), // so that weights are not all on one slot
            [before, after] = [weightsOf(small, x), weightsOf(small, back)],
            moved = before.reduce((sum, w, i) => sum + Math.abs(w - after[i]) / 2, 0);
          expect(moved).toBeLessThanOrEqual(roundingVariation((Math.hypot(...small) * bound) / Math.sqrt(d)) + 1e-9);
        }
      },
    ),
    { numRuns: 200 },
  );
});

test('nor where numbers are larger than a half can be, in rows and in slots that were demoted', () => {
  const large = fc.oneof(number, fc.constantFrom(65_504, -65_504, 70_000, -1e6, 2e6));
  fc.assert(
    fc.property(
      fc.constantFrom<CacheForm>('f32', 'f16', 'q8', 'k8v4'),
      fc.integer({ min: 0, max: LEVELS.length - 1 }),
      fc.array(large, { minLength: 64, maxLength: 64 }),
      (form, level, numbers) => {
        const x = Float32Array.from(numbers),
          cache = new LayerCache(1, 64, new Ledger(), { form });
        cache.append(x, x, Uint32Array.of(0));
        for (const demotes of [false, true]) {
          if (demotes) cache.keep([Uint32Array.of(0)], 0, [Uint8Array.of(level)]);
          for (const part of ['keys', 'values'] as const) {
            const back = cache.read(part, 0);
            expect(Math.hypot(...x.map((y, i) => y - back[i]))).toBeLessThanOrEqual(cache.rounding(part, 0));
          }
        }
      },
    ),
    { numRuns: 500 },
  );
});

test('the bound on the variation is met by two slots whose logits change places', () => {
  const eta = 0.3,
    share = (logit: number): number => 1 / (1 + Math.exp(-logit));
  expect(share(eta) - share(-eta)).toBeCloseTo(roundingVariation(eta), 12);
});

test('a run says what rounding can have changed, and nothing of a cache in f32', async () => {
  const model = await loadModel(reference('data/goldens/llama')),
    ids = Array.from({ length: 60 }, (_, i) => (37 * i) % model.config.vocab),
    run = async (cache: CacheForm): Promise<Certificates> => {
      const { report } = await generate(model, {
        ...{ ids, cache, policy: 'snapkv(window=8)', budget: 20, maxNewTokens: 1, certify: certificates() },
      });
      return report.certificates as Certificates;
    };
  expect((await run('f32')).rounding).toBeUndefined();
  const { events, rounding } = await run('q8'),
    fine = (await run('f16')).rounding!;
  expect(rounding!.rows).toBe(events!.rows);
  expect(rounding!.dropped.mean).toBeGreaterThan(events!.dropped.mean);
  expect(fine.logitError.max).toBeLessThan(rounding!.logitError.max / 2);
  model.destroy();
});

test('what was rounded off stays known once slots have moved, and in a file, whatever form it is loaded in', async () => {
  const model = await loadModel(reference('data/goldens/llama')),
    ids = Array.from({ length: 60 }, (_, i) => (37 * i) % model.config.vocab),
    sequence = new Sequence(model, undefined, { cache: 'q8', window: 48 }),
    policy = 'snapkv(window=8) | topK',
    errors = async (of: Sequence): Promise<number> => {
      const observer = certificates();
      of.observer = observer;
      await of.evict(policy, 12);
      return (observer.conclude({ heads: 1, layers: 1, steps: 0, frozen: [], total: () => undefined }) as Certificates)
        .rounding!.logitError.max;
    };
  await sequence.prefill(ids, { policy, budget: 24, block: 16 });
  for await (const _ of decode(sequence, { maxNewTokens: 8, every: 4, stopAtEos: false }));
  expect(sequence.progress.shift).toBeGreaterThan(0);
  const bytes = await saveCache(sequence),
    exact = await loadCache(model, bytes, { cache: 'f32', policy }),
    again = await loadCache(model, await saveCache(exact), { policy }),
    stayed = await loadCache(model, bytes, { policy }),
    bound = await errors(exact);
  expect(bound).toBeGreaterThan(0);
  expect(await errors(again)).toBe(bound);
  // loaded in another form, the largest bound of a head holds for all of them
  expect(await errors(stayed)).toBeCloseTo(bound, 2);
  for (const of of [sequence, exact, again, stayed]) of.destroy();
  model.destroy();
});

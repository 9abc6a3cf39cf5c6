import { as, attentionAccumulated, attentionBlock, attentionLast, attentionMax, attentionWindow, compose, scorer, type Policy, type Signal } from '@kv/core';
import { topK } from '@kv/selectors-top-k';
import ndarray from 'ndarray';
import { expect, test } from 'vitest';
import { loadModel, Sequence } from '../src/index.ts';
import { probabilities } from './attention-oracle.ts';
import { fixture, wanted } from './fixture.ts';
import { emptyCaches, relative, run } from './run.ts';

/** A scorer whose scores are a signal's values. */
const probe = (signal: Signal): Policy => compose(scorer('probe', [as('attention', signal)], ({ attention }) => attention), topK());

/** What each signal is of rows of probabilities, `[m][n]`. */
const signals: readonly (readonly [Signal, (rows: readonly (readonly number[])[], slot: number) => number])[] = [
  [attentionLast, (rows, j) => rows.at(-1)![j]!],
  [attentionWindow(4), (rows, j) => rows.slice(-4).reduce((sum, row) => sum + row[j]! / 4, 0)],
  [attentionMax(4), (rows, j) => Math.max(...rows.slice(-4).map((row) => row[j]!))],
  [attentionAccumulated, (rows, j) => rows.reduce((sum, row) => sum + row[j]!, 0)],
  [attentionBlock, (rows, j) => rows.slice(-10).reduce((sum, row) => sum + row[j]!, 0)],
];

test.each(['mistral', 'gemma2', 'qwen2'])('signals of %s are those of its own attention: windows, scale and soft cap', async (name) => {
  const model = await loadModel(fixture(name)), { ids } = wanted(name, '.')[0]!, { queryHeads: H, kvHeads: G, headDim: d, attention } = model.config;
  const caches = emptyCaches(model.decoder), queries: Float32Array[] = [];
  await run(model.decoder, caches, ids, { watch: (l, { q }) => void (queries[l] = q) });
  const sequence = new Sequence(model), policies = signals.map(([signal]) => probe(signal));
  await sequence.prefill(ids, { policies, block: 10 });
  for (const [l, cache] of caches.entries()) {
    const heads = Array.from({ length: G }, (_, g) => ({ positions: [...ids.keys()], values: [], keys: ids.map((_, j) => [...cache.keys.subarray((g * cache.capacity + j) * d, (g * cache.capacity + j + 1) * d)]) }));
    const window = attention.windows[l]!, rows = probabilities(ndarray(Float64Array.from(queries[l]!), [H, ids.length, d]), [...ids.keys()], heads, (_, position, query) => position > query - window, attention);
    for (const [i, [, of]] of signals.entries()) {
      const want = Array.from({ length: G }, (_, g) => ids.map((_, j) => rows.slice((g * H) / G, ((g + 1) * H) / G).reduce((sum, each) => sum + of(each.map((row) => [...row.data]), j) / (H / G), 0)));
      const got = await sequence.scores(policies[i]!, l);
      for (const [g, row] of want.entries()) expect(relative(got[g]!, row), `${signals[i]![0].id}, layer ${l}`).toBeLessThan(1e-5);
    }
  }
  sequence.destroy();
});

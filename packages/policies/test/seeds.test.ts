import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compose, mandatory } from '@kv/core';
import { apply } from '@kv/cpu';
import type { Tokens } from '@kv/core';
import { h2o } from '@kv/scorers-attention';
import { caote } from '@kv/scorers-caote';
import { learnRank, ranker } from '@kv/scorers-sponsorship';
import { topK } from '@kv/selectors-top-k';
import { compactor, crystalcache, parsePolicy, policy, taFast } from '../src/index.ts';
import { keptOn } from './on-scene.ts';

/** One aligned head of n slots, whose text is sentences of five words. */
function layerOf(n: number, budget: number) {
  const words = Array.from({ length: n }, (_, i) => (i % 5 === 4 ? ' end.' : ` w${i}`));
  let end = 0;
  const tokens: Tokens = {
    ids: Array.from({ length: n }, (_, i) => i % 37),
    text: words.join(''),
    offsets: words.map((word) => [end, (end += word.length)]),
  };
  const numbers = (length: number, by: number): Float32Array =>
    Float32Array.from({ length }, (_, i) => Math.sin(by * i));
  return {
    seed: 1,
    at: {
      layer: 0,
      layers: 1,
      queryHeads: 1,
      kvHeads: 1,
      headDim: 4,
      step: 0,
      promptLength: n,
      length: n,
      slots: n,
      aligned: true,
      budget,
      selectRows: 1,
    },
    lengths: [n],
    keys: numbers(4 * n, 1.3),
    values: numbers(4 * n, 0.7),
    attention: numbers(n, 0.3).map(Math.abs),
    positions: Uint32Array.from({ length: n }, (_, i) => i),
    tokens,
  };
}

test('seed 001: CAOTE over sums of a block is |o - o without j| of these sums, nothing forced', () => {
  const cases = fc.array(fc.tuple(fc.integer({ min: 1, max: 64 }), fc.integer({ min: -8, max: 8 })), {
    minLength: 3,
    maxLength: 12,
  });
  fc.assert(
    fc.property(cases, (slots) => {
      const a = slots.map(([weight]) => weight / 64),
        v = slots.map(([, value]) => value),
        total = a.reduce((x, y) => x + y, 0),
        output = (without = -1): number =>
          a.reduce((sum, w, i) => (i === without ? sum : sum + w * v[i]), 0) / (total - (a[without] ?? 0));
      const { scores, kept } = apply(compose(h2o({ over: 'block', recent: 0 }), caote(), topK()), {
        attention: [a],
        values: { data: Float32Array.from(v), shape: [1, v.length, 1] },
        budget: 1,
      });
      a.forEach((_, j) => expect(scores!.data[j]).toBeCloseTo(Math.abs(output() - output(j)), 3));
      expect(kept![0]).toHaveLength(1);
    }),
  );
});

test('seed 000, table of decoys: LearnRank vouches Σ 15 f 0.8^(j - i) over the reach, for anchors with f > 0.3', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 10 }), { minLength: 2, maxLength: 20 }), (tenths) => {
      const sure = tenths.map((x) => x / 10),
        rank = ranker('sure', {}, () => () => sure)(),
        { tokens } = layerOf(sure.length, 1);
      const { scores } = apply(learnRank({ rank }), { tokens, budget: 1 });
      sure.forEach((_, j) => {
        let want = 0;
        for (let i = Math.max(0, j - 6); i < j; i++) if (tenths[i] > 3) want += 15 * sure[i] * 0.8 ** (j - i);
        expect(scores!.data[j]).toBeCloseTo(want, 3);
      });
    }),
  );
});
test('seed 000: TA with LearnRank keeps what a sure anchor vouches for, and not what a doubtful one does', () => {
  const { tokens } = layerOf(60, 16),
    rank = ranker('two', {}, () => () => tokens.ids.map((_, i) => (i === 20 ? 0.9 : i === 40 ? 0.2 : 0)))();
  const { kept } = apply(taFast({ rank, reach: 4, slots: 4 }), { tokens, budget: 16 });
  expect(kept![0]).toEqual(expect.arrayContaining([21, 22, 23, 24]));
  expect(kept![0]).not.toContain(41);
});

test('seed 003, base scorer: with the prompt pinned only generated tokens go, the best of them stay', () => {
  const cases = fc.record({
    prompt: fc.integer({ min: 1, max: 10 }),
    later: fc.uniqueArray(fc.integer({ min: 1, max: 99 }), { minLength: 1, maxLength: 12 }),
    room: fc.nat(12),
  });
  fc.assert(
    fc.property(cases, ({ prompt, later, room }) => {
      const scores = [[...new Array<number>(prompt).fill(-1), ...later]],
        length = prompt + later.length,
        budget = Math.min(length, prompt + room);
      const { kept } = apply(compose(mandatory({ sinks: 0, prompt: true }), topK()) as never, {
        scores,
        budget,
        at: { promptLength: prompt, length },
      });
      const best = [...later.keys()].sort((a, b) => later[b] - later[a]).slice(0, budget - prompt);
      expect(kept![0]).toEqual([...Array(prompt).keys(), ...best.map((i) => prompt + i)].sort((a, b) => a - b));
    }),
  );
  expect(policy('triattention', { prompt: true, every: 128 }).label).toContain('prompt=true');
});

test('seed 002, eq. 30: a budget below 132 is raised to it, of a short document all stays', () => {
  for (const [n, budget] of [
    [400, 20],
    [400, 131],
    [400, 200],
    [90, 27],
  ]) {
    const [kept] = keptOn(crystalcache(), layerOf(n, budget)),
      b = Math.min(n, Math.max(132, budget));
    expect(kept.length, `${n} slots, ${budget}`).toBeGreaterThanOrEqual(b - 2);
    expect(kept.length).toBeLessThanOrEqual(b);
    expect(kept).toEqual(expect.arrayContaining([0, 3, n - 1, Math.max(0, n - 128)]));
  }
});
test('seed 002, table 10: with uniform weights trunks go by centrality alone', () => {
  const layer = layerOf(400, 200),
    louder = { ...layer, tokens: { ...layer.tokens, ids: layer.tokens.ids.map((_, i) => i) } }; // other rarity
  const uniform = crystalcache({ impact: 'uniform' });
  expect(keptOn(uniform, layer)).toEqual(keptOn(uniform, louder));
  expect(keptOn(crystalcache(), layer)).not.toEqual(keptOn(uniform, layer));
});

test('seed 003, variant_b: a score plus lambda times the cosine of a value to the mean direction of values', () => {
  const cases = fc.array(fc.tuple(fc.integer({ min: -8, max: 8 }), fc.integer({ min: 1, max: 8 })), {
    minLength: 2,
    maxLength: 12,
  });
  fc.assert(
    fc.property(cases, fc.integer({ min: 0, max: 8 }), (vectors, eighths) => {
      const lambda = eighths / 8,
        units = vectors.map((v) => v.map((x) => x / Math.hypot(...v))),
        mean = [0, 1].map((c) => units.reduce((sum, unit) => sum + unit[c], 0)),
        prior = parsePolicy(`weighted(1*recency,-${lambda}*keydiff(of=values)) ∘ topK`);
      const { scores } = apply(prior, {
        tokens: layerOf(vectors.length, 1).tokens,
        keys: { data: new Float32Array(2 * vectors.length).fill(1), shape: [1, vectors.length, 2] },
        values: { data: Float32Array.from(vectors.flat()), shape: [1, vectors.length, 2] },
        budget: 1,
      });
      const { scores: plain } = apply(parsePolicy('recency ∘ topK'), {
        tokens: layerOf(vectors.length, 1).tokens,
        budget: 1,
      });
      units.forEach((unit, i) =>
        expect(scores!.data[i]).toBeCloseTo(
          plain!.data[i] + (lambda * (unit[0] * mean[0] + unit[1] * mean[1])) / Math.hypot(...mean),
          4,
        ),
      );
    }),
  );
});

test('kvpress: FINCH in chunks keeps the best of each, and the question where it stands', () => {
  const policy = parsePolicy('questionAttention(question=4) ∘ chunks(size=8,shared=false) ∘ quota ∘ rerotate');
  fc.assert(
    fc.property(fc.uniqueArray(fc.integer({ min: 0, max: 999 }), { minLength: 24, maxLength: 24 }), (a) => {
      const { kept } = apply(policy, { attention: [a], budget: 12 });
      // int(8 / 2) of each chunk; the question's scores are padded with the largest, so that it comes first in its own
      const padded = a.map((x, i) => (i < 20 ? x : 1000 + i));
      const want = [0, 8, 16].flatMap((from) =>
        [...Array(8).keys()]
          .map((i) => from + i)
          .sort((x, y) => padded[y] - padded[x])
          .slice(0, 4)
          .sort((x, y) => x - y),
      );
      expect(kept).toEqual([want]);
    }),
  );
});

test('kvpress: Compactor blends by the share that goes unless a weight is given', () => {
  const layer = layerOf(80, 20);
  expect(keptOn(compactor({ blending: 1 - 20 / 80 }), layer)).toEqual(keptOn(compactor(), layer));
  expect(keptOn(compactor({ blending: 9 }), layer)).not.toEqual(keptOn(compactor(), layer));
});

import fc from 'fast-check';
import ndarray from 'ndarray';
import { expect, test } from 'vitest';
import { compose } from '@kv/core';
import { apply, cpu } from '@kv/cpu';
import { compile, emptyDraft, runSteps } from '@kv/core/engine';
import type { DraftSelection, Piece } from '@kv/core';
import { centrality, collector, coverage, crystallization, saliency, unitLogMinMax, trunks } from '../src/index.ts';
import { branchDissolution } from '@kv/selectors-branch-dissolution';
import { asSignal, noise, randomEdges, randomTokens, sentencesOf } from './given.ts';
import { centralityOracle, edgesOracle, trunksOracle } from './trunks.oracle.ts';

const sizes = fc.record({
  n: fc.integer({ min: 1, max: 30 }),
  heads: fc.integer({ min: 1, max: 5 }),
  chunk: fc.integer({ min: 1, max: 12 }),
  seed: fc.integer({ min: 1, max: 9999 }),
});
test('streamed edges and saliency are those of whole attention matrices', () => {
  fc.assert(
    fc.property(sizes, ({ n, heads, chunk, seed }) => {
      const attention = ndarray(new Float64Array(heads * n * n), [heads, n, n]),
        edges = collector({ chunk });
      for (let q = 0; q < n; q++) {
        const rows = new Float32Array(heads * (q + 1));
        for (let h = 0; h < heads; h++) {
          const weights = Array.from({ length: q + 1 }, (_, i) => noise(seed + h)(q * n + i) ** 6),
            total = weights.reduce((a, b) => a + b, 0);
          weights.forEach((w, i) => {
            rows[h * (q + 1) + i] = w / total;
            attention.set(h, q, i, Math.fround(w / total));
          });
        }
        edges.add(q, rows);
      }
      const got = edges.take(),
        want = edgesOracle(attention, chunk);
      const name = ({ i, j }: { i: number; j: number }): string => `${i},${j}`,
        made = new Map(Array.from(got.from, (i, e) => [name({ i, j: got.to[e] }), got.weight[e]]));
      expect([...made.keys()].sort()).toEqual(want.edges.map(name).sort());
      for (const edge of want.edges) expect(made.get(name(edge))).toBeCloseTo(edge.w, 4);
      want.saliency.forEach((s, i) => expect(got.saliency[i]).toBeCloseTo(s, 4));
      expect([...got.from]).toEqual([...got.from].sort((a, b) => a - b));
    }),
    { numRuns: 60 },
  );
});

/** Returns the draft of one layer and head after a piece that starts from scores. */
function draftOf(
  piece: Piece,
  n: number,
  tokens: ReturnType<typeof randomTokens>,
  edges: ReturnType<typeof randomEdges>,
  scores: readonly number[],
): DraftSelection {
  const at = {
    layer: 0,
    layers: 1,
    queryHeads: 1,
    kvHeads: 1,
    headDim: 1,
    step: 0,
    promptLength: n,
    length: n,
    slots: n,
    aligned: true,
    budget: n,
    selectRows: 1,
  };
  const layer = {
    at,
    budgets: [n],
    read: (signal: { id: string }): unknown =>
      signal.id === 'tokens'
        ? tokens
        : signal.id === 'crystalcache.co-attention'
          ? asSignal(edges, n)
          : cpu.ops.from({ data: Uint32Array.from({ length: n }, (_, i) => i), shape: [1, n] }, 'u32'),
  };
  return runSteps(compile(piece).steps, [layer], cpu.ops, [
    { ...emptyDraft(layer, cpu.ops), scores: cpu.ops.from({ data: Float32Array.from(scores), shape: [1, n] }) },
  ])[0];
}
const texts = fc.record({
  n: fc.integer({ min: 1, max: 40 }),
  seed: fc.integer({ min: 1, max: 9999 }),
  merge: fc.constantFrom(0, 0.3, 0.6),
  maxSize: fc.integer({ min: 5, max: 20 }),
  direction: fc.constantFrom('forward' as const, 'either' as const),
  steepness: fc.constantFrom(1, 5, 9),
});
const numbers = (x: unknown): number[] => Array.from((x as { data: ArrayLike<number> }).data);

test('trunks, their scores and their centrality agree with the oracles', () => {
  fc.assert(
    fc.property(texts, ({ n, seed, merge, maxSize, direction, steepness }) => {
      const tokens = randomTokens(n, seed),
        edges = randomEdges(n, seed),
        scores = Array.from({ length: n }, (_, i) => noise(seed + 5)(i) * 20);
      const want = trunksOracle(sentencesOf(tokens), edges, maxSize, merge, direction === 'either'),
        cut = trunks({ merge, maxSize, edges: direction }),
        split = want.flatMap((g) => {
          const pieces = Math.ceil(g.length / maxSize),
            ends = Array.from({ length: pieces + 1 }, (_, p) => Math.floor((p * g.length) / pieces));
          return ends.slice(1).map((end, p) => g.slice(ends[p], end));
        });
      const draft = draftOf(cut, n, tokens, edges, scores),
        of = numbers(draft.units!.of);
      expect(Array.from({ length: draft.units!.count }, (_, u) => of.flatMap((v, i) => (v === u ? [i] : [])))).toEqual(
        split,
      );
      for (const g of split) expect(g.length).toBeLessThanOrEqual(maxSize);
      numbers(draft.unitScores).forEach((x, u) => {
        const best = split[u]
          .map((i) => scores[i])
          .sort((a, b) => b - a)
          .slice(0, 3);
        expect(x).toBeCloseTo(best.reduce((a, b) => a + b, 0) / best.length, 3);
      });
      numbers(draftOf(compose(cut, centrality({ steepness })), n, tokens, edges, scores).unitScores).forEach((x, u) =>
        expect(x).toBeCloseTo(centralityOracle(split, edges, steepness)[u], 4),
      );
      const heights = numbers(draft.unitScores).map((x) => Math.log(1 + x)),
        low = Math.min(...heights),
        span = Math.max(...heights) - low;
      numbers(draftOf(compose(cut, unitLogMinMax()), n, tokens, edges, scores).unitScores).forEach((x, u) =>
        expect(x).toBeCloseTo((heights[u] - low) / (span + 1e-8), 3),
      );
      for (const join of ['max', 'mean'] as const)
        numbers(
          draftOf(compose(cut, crystallization({ alpha: 0.7, join })), n, tokens, edges, scores).unitScores,
        ).forEach((x, u) => {
          const content = (0.7 * (heights[u] - low)) / (span + 1e-8),
            place = centralityOracle(split, edges)[u];
          expect(x).toBeCloseTo(join === 'max' ? Math.max(content, place) : (content + place) / 2, 3);
        });
    }),
    { numRuns: 80 },
  );
});

test('saliency is clipped and scaled; coverage spreads its slots', () => {
  const value = {
    saliency: Float32Array.of(0, 10, 50),
    from: new Uint32Array(),
    to: new Uint32Array(),
    weight: new Float32Array(),
  };
  expect(
    Array.from(apply(saliency(), { coAttention: value, at: { slots: 3 } }).scores!.data).map(
      (x) => Math.round(x * 1000) / 1000,
    ),
  ).toEqual([0.005, 0.5, 1]);
  const { kept } = apply(
    compose(coverage({ share: 0.5 }), trunks({ maxSize: 1 }), branchDissolution({ protect: 'slots', least: 1 })),
    {
      scores: [[9, 8, 7, 1, 1, 1, 1, 1, 1, 1, 1, 1]],
      tokens: randomTokens(12, 1),
      coAttention: asSignal([], 12),
      budget: 6,
    },
  );
  expect(kept).toEqual([[0, 1, 2, 3, 7, 11]]);
});

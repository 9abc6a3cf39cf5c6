import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { attentionLast, weightScorer } from '@kv/core';
import { apply } from '@kv/cpu';
import type { Policy } from '@kv/core';
import { catalogue, parsePolicy } from '../src/index.ts';

/**
 * CriticalAdaKV of one layer, after Feng et al. 2025, arXiv:2502.03805 and kvpress' `CriticalAdaKVPress`: heads share
 * the layer's slots by the first scores, half of a head's share stays by them, the rest by scores times output norms.
 */
function criticalAda(
  scores: readonly (readonly number[])[],
  norms: readonly (readonly number[])[],
  budget: number,
): number[][] {
  const best = (row: readonly number[], count: number): number[] =>
    row
      .map((x, i) => [x, i] as const)
      .sort((a, b) => b[0] - a[0])
      .slice(0, count)
      .map(([, i]) => i);
  const safe = scores.map((row) => new Set(best(row, Math.floor(0.2 * budget)))),
    all = scores.flatMap((row, g) => row.map((x, i) => ({ g, x: safe[g].has(i) ? Infinity : x })));
  const taken = [...all].sort((a, b) => b.x - a.x).slice(0, budget * scores.length),
    share = scores.map((_, g) => taken.filter((one) => one.g === g).length);
  return scores.map((row, g) => {
    const first = new Set(best(row, Math.floor(0.5 * share[g])));
    return best(
      row.map((x, i) => (first.has(i) ? Infinity : (x + 1e-4) * norms[g][i])),
      share[g],
    ).sort((a, b) => a - b);
  });
}

const given = weightScorer('given', { needs: [attentionLast] }, ({ attention }) => attention);
/** The row of docs/from-kvpress.md, over given scores. */
const written = (): Policy => {
  const table = readFileSync(new URL('../../../docs/from-kvpress.md', import.meta.url), 'utf8'),
    [, text] = /CriticalAdaKVPress\(SnapKVPress\(\)\)` \| `snapkv\([^)]*\) ∘ ([^`]*)`/.exec(table)!; // or the test fails
  return parsePolicy(`given ∘ ${text}`, new Map([...catalogue, ['given', [{ factory: given, package: 'test' }]]]));
};

test('CriticalAdaKV as the table of kvpress has it: the heads share first, then each divides its own', () => {
  const policy = written();
  const row = fc.uniqueArray(fc.integer({ min: 1, max: 100_000 }), { minLength: 24, maxLength: 24 });
  fc.assert(
    fc.property(row, row, row, row, fc.integer({ min: 5, max: 20 }), (a, b, c, d, budget) => {
      // no score comes twice in a layer, so nothing is a tie
      const scores = [a.map((x) => x / 1e5), b.map((x) => (x + 0.5) / 1e5)],
        norms = [c.map((x) => x / 1e4), d.map((x) => x / 1e4)];
      const { kept } = apply(policy, { attention: scores, outputNorms: norms, budget });
      expect(kept!.map((set) => [...set])).toEqual(criticalAda(scores, norms, budget));
    }),
    { numRuns: 200 },
  );
});

import { KvError } from '@kv/core';
import { compile, planBudgets } from '@kv/core/engine';
import { sumOf } from '@kv/core/shared';
import { retain } from '@kv/cpu';
import { fixture } from '@kv/model-testing/fixture';
import { loadModel, Sequence } from '@kv/models';
import { parsePolicy, policyNames } from '@kv/policies';
import { slotHeads } from '@kv/checkpoints';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it, test } from 'vitest';
import type { Model } from '@kv/models';

let model: Model;
beforeAll(async () => {
  model = await loadModel(fixture('gemma4-keys'));
});
afterAll(() => model.destroy());
const ids = Array.from({ length: 60 }, (_, i) => (i * 37 + 11) % 64);
/** What a policy needs that no tiny fixture has. */
const MISSING =
  /expected .* (?:file|safetensors|statistics|weights)|cannot be read|reads |next to the model|has no |calibrat|gate/i;

test('the fixture has layers with different numbers of KV heads', () =>
  expect(new Set(slotHeads(model.config).map(({ kvHeads }) => kvHeads)).size).toBeGreaterThan(1));

const allocators = [
  'linearBudgets',
  'roundedLinearBudgets',
  'entropyVarianceBudgets',
  'topScoreBudgets',
  'compositeTokens',
  'modelWide',
  'adaKV',
  'uniform',
];
it.each([...policyNames, ...allocators.map((name) => `snapkv(window=4) | ${name} | topK`)])(
  '%s keeps no more than its budget over layers with different numbers of heads',
  async (text) => {
    const policy = parsePolicy(text),
      { evicts, raises, open } = compile(policy),
      sequence = new Sequence(model);
    try {
      await sequence.prefill(ids, { policy, budget: 40 });
    } catch (cause) {
      expect(KvError.is(cause), String(cause)).toBe(true);
      expect((cause as Error).message).not.toContain('shape');
      expect((cause as Error).message).toMatch(new RegExp(`${MISSING.source}|fewer than '.*' forces`, 'i'));
      return;
    } finally {
      if (evicts && !raises && !open && sequence.stats.counts.events > 0) {
        const rows = sequence.kept().flat();
        expect(sumOf(rows.map(({ length }) => length))).toBeLessThanOrEqual(40 * rows.length);
        for (const row of rows) expect(row.length).toBeGreaterThan(0);
      }
      sequence.destroy();
    }
  },
);

it.each([
  'linearBudgets',
  'roundedLinearBudgets',
  'topScoreBudgets',
  'entropyVarianceBudgets',
  'compositeTokens',
  'modelWide',
  'adaKV',
])('%s shares out one budget over caches of any numbers of heads', async (allocator) => {
  const policy = parsePolicy(`snapkv(window=4) | ${allocator} | topK`);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom(1, 2, 4), { minLength: 2, maxLength: 5 }),
      fc.integer({ min: 12, max: 40 }),
      fc.nat(),
      async (heads, budget, seed) => {
        const [n, d, H] = [64, 4, 4],
          wave = (size: number, by: number) => Float32Array.from({ length: size }, (_, i) => Math.sin(seed + by * i)),
          layers = heads.map((G, l) => ({
            keys: { data: wave(G * n * d, 1.7 + l), shape: [G, n, d] },
            values: { data: wave(G * n * d, 0.9 + l), shape: [G, n, d] },
            queries: { data: wave(H * 4 * d, 2.3 + l), shape: [H, 4, d] },
          })),
          { slots } = await retain(policy, { layers, queryHeads: H }, { budget }),
          kept = slots.flat().map(({ length }) => length);
        expect(slots.map(({ length }) => length)).toEqual(heads);
        // half a slot a layer where a paper's rule rounds each by itself
        const slack = allocator === 'roundedLinearBudgets' ? sumOf(heads) : 0;
        expect(sumOf(kept)).toBeLessThanOrEqual(budget * sumOf(heads) + slack);
        expect(sumOf(kept)).toBeGreaterThan(0.6 * budget * sumOf(heads));
      },
    ),
    { numRuns: 60 },
  );
});

it('a line of budgets holds the total, whatever heads and lengths layers have', () => {
  const layers = fc.array(
    fc.record({ heads: fc.integer({ min: 1, max: 8 }), slots: fc.integer({ min: 40, max: 400 }) }),
    { minLength: 2, maxLength: 12 },
  );
  const policy = compile(parsePolicy('snapkv(window=4) | linearBudgets | topK'));
  fc.assert(
    fc.property(layers, fc.integer({ min: 8, max: 120 }), (shape, budget) => {
      const lengths = shape.map(({ heads, slots }) => new Array<number>(heads).fill(slots)),
        { budgets } = planBudgets(policy, { slots: budget }, lengths),
        total = sumOf(lengths.flat().map((slots) => Math.min(slots, budget)));
      expect(budgets.map(({ length }) => length)).toEqual(lengths.map(({ length }) => length));
      expect(sumOf(budgets.flat())).toBeLessThanOrEqual(Math.max(total, budget * lengths.flat().length));
      for (const [l, row] of budgets.entries())
        for (const b of row) expect(b).toBeLessThanOrEqual(Math.max(budget, lengths[l]![0]!));
    }),
  );
});

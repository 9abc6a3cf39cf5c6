import { beforeAll, expect, test } from 'vitest';
import { readCpu } from '@kv/cpu';
import { generate } from '../../src/index.ts';
import type { Model } from '../../src/index.ts';
import { parsePolicy } from '@kv/policies';
import { llamaGolden } from './goldens.ts';

let model: Model, ids: number[];
beforeAll(async () => {
  ({ model, ids } = await llamaGolden());
});

test.each([
  ['snapkv(window=4) ∘ adaKV ∘ topK', 'layer'],
  ['snapkv(window=4) ∘ modelWide ∘ topK', 'model'],
  ['cakeScores(window=4) ∘ entropyVarianceBudgets(window=4) ∘ adaKV ∘ topK', 'model'],
])('%s spends its whole budget at every event, also where the last one left heads unequal', async (text, reach) => {
  const held: number[][][] = [],
    policy = parsePolicy(text),
    spy = {
      ...policy,
      atoms: policy.atoms.map((a) =>
        a.at !== 'event' || a.kind !== 'selector'
          ? a
          : {
              ...a,
              run: (cells: Parameters<typeof a.run>[0]) => {
                const drafts = a.run(cells);
                cells.forEach(({ at }, i) => {
                  const { shape, lengths } = readCpu(drafts[i].kept!);
                  (held[at.layer] ??= []).push(Array.from(lengths ?? new Array<number>(shape[0]).fill(shape[1])));
                });
                return drafts;
              },
            },
      ),
    } as typeof policy;
  const { report } = await generate(model, { ids: ids, policy: spy, budget: 32, every: 2, block: 64, maxNewTokens: 9 }),
    sum = (x: readonly number[]): number => x.reduce((a, b) => a + b, 0),
    events = held[0].length;
  expect(events).toBeGreaterThan(4);
  for (let e = 0; e < events; e++) {
    const layers = held.map((layer) => layer[e]);
    if (reach === 'layer') for (const heads of layers) expect(sum(heads)).toBe(64);
    expect(sum(layers.flat())).toBe(4 * 64);
  }
  expect(new Set(report.budgets.flat()).size).toBeGreaterThan(1);
});

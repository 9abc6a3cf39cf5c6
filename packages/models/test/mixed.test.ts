import { slotLayers } from '@kv/checkpoints';
import { commonHeads } from '@kv/engine';
import { compose, id, method, type Policy } from '@kv/core';
import { snapkv, streaming, tova } from '@kv/scorers-attention';
import { etf, psaw } from '@kv/allocators-schedules';
import { topK } from '@kv/selectors-top-k';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createPrefixStore, generate, loadCache, loadModel, saveCache, Sequence, type Model } from '../src/index.ts';
import { halfWeights, oracleLogits, type Json } from '@kv/engine-testing/decoder.oracle';
import { fixture, fixtureJson } from '@kv/model-testing/fixture';
import { inTurn } from '@kv/model-testing/in-turn';
import { relative } from '@kv/engine-testing/run';

/**
 * Windowed layers mixed with global ones under two ropes, or one scaled in the global ones alone; layers without positions;
 * windows in every layer; heads with learned sinks; layers that carry a state, which policies do not count; queries that are
 * scaled by their position; heads that differ by layer, and layers that read the slots of earlier ones.
 */
const names = [
  'gemma3',
  'smollm3',
  'mistral',
  'gemma2',
  'granite_swa',
  'lfm2',
  'qwen3_5',
  'ministral3',
  'lfm3',
  'granitemoehybrid',
  'gemma4',
  'gemma4-keys',
] as const;
type Name = (typeof names)[number];
const models = new Map<Name, Model>(
  await Promise.all(names.map(async (name) => [name, await loadModel(fixture(name))] as const)),
);
const config = (name: Name): Json => fixtureJson<Json>(`${name}/config.json`);
const weights = new Map(names.map((name) => [name, halfWeights(fixture(`${name}/model.safetensors`))]));
/** Layers of a model by the places of the slots that they read among the layers that keep slots; -1 for a layer that reads none. */
const slotsOf = (name: Name): number[] => {
  const { config } = models.get(name)!, // of the list above
    keep = slotLayers(config);
  return config.mixers.map((mixer, l) => (mixer.kind === 'attention' ? keep.indexOf(mixer.slotsOf ?? l) : -1));
};
const ids = (n: number, seed: number): number[] =>
  Array.from({ length: n }, (_, i) => 3 + ((7 * i * i + 11 * i + seed) % 61));
interface Numbers {
  readonly prompt: number;
  readonly steps: number;
  readonly budget: number;
  readonly every: number;
  readonly seed: number;
}
const numbers: fc.Arbitrary<Numbers> = fc.record({
  prompt: fc.integer({ min: 2, max: 40 }),
  steps: fc.integer({ min: 1, max: 24 }),
  budget: fc.integer({ min: 5, max: 30 }),
  every: fc.integer({ min: 1, max: 9 }),
  seed: fc.nat({ max: 60 }),
});
const policies: readonly (readonly [string, Policy])[] = [
  ['full', id],
  ['streaming', compose(streaming({ sinks: 2 }), topK())],
  ['snapkv', compose(snapkv({ window: 4 }), topK())],
  ['tova', compose(tova(), topK())],
];

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

/** Logits, and the slots that every layer and head held after the prompt and after each following token. */
interface Ran {
  readonly fed: readonly number[];
  readonly kept: readonly (readonly (readonly (readonly number[])[])[])[];
  readonly logits: readonly Float32Array[];
}
async function ran(model: Model, policy: Policy, { prompt, steps, budget, every, seed }: Numbers): Promise<Ran> {
  const sequence = new Sequence(model),
    fed = ids(prompt + steps, seed);
  await sequence.prefill(fed.slice(0, prompt), { policy, ...(policy !== id && { budget }) });
  const kept = [sequence.kept()],
    logits = [(await sequence.logits())[0]];
  for (const token of fed.slice(prompt)) {
    await sequence.step(token, every);
    kept.push(sequence.kept());
    logits.push((await sequence.logits())[0]);
  }
  sequence.destroy();
  expect([sequence.memory.ledger.live, sequence.memory.ledger.allocated]).toEqual([0, 0]);
  return { fed, kept, logits };
}

describe.each(inTurn(names, 6))('%s', (name) => {
  const model = models.get(name)!, // of the list above
    slots = slotsOf(name),
    windows = slotLayers(model.config).map((l) => model.config.attention.windows[l]);

  test.each(policies)(
    'under %s a window sees by original positions: logits are those of the float64 oracle',
    async (_, policy) => {
      await fc.assert(
        fc.asyncProperty(numbers, async (numbers) => {
          const { fed, kept, logits } = await ran(model, policy, numbers),
            { prompt } = numbers;
          /** Whether a generated token sees a slot: those held before it, and itself. */
          const sees = (l: number, g: number, t: number, j: number): boolean =>
            t < prompt || j === t || kept[t - prompt][slots[l]][g].includes(j);
          const want = oracleLogits(config(name), weights.get(name)!, fed, sees);
          for (const [i, row] of logits.entries())
            expect(relative(row, want[prompt - 1 + i]), `token ${prompt - 1 + i}`).toBeLessThan(2e-5);
        }),
        { numRuns: 5 },
      );
    },
  );

  test.each(policies)(
    'under %s nothing but what a window hides goes between events, and that goes',
    async (_, policy) => {
      await fc.assert(
        fc.asyncProperty(numbers, async (numbers) => {
          const { kept } = await ran(model, policy, numbers),
            { prompt, every, budget } = numbers;
          for (const [i, layers] of kept.entries())
            for (const [l, heads] of layers.entries())
              for (const [g, positions] of heads.entries()) {
                const length = prompt + i,
                  first = Math.max(0, length - windows[l]),
                  spare = Math.floor(windows[l] / 8);
                expect(positions).toEqual([...positions].sort((a, b) => a - b));
                expect(positions.filter((p) => p < first).length).toBeLessThanOrEqual(i === 0 ? 0 : spare + 1);
                const reached = positions.filter((p) => p >= first),
                  before = i === 0 ? range(length) : [...kept[i - 1][l][g], length - 1],
                  left = before.filter((p) => p >= first);
                if (policy !== id && (i === 0 || i % every === 0)) {
                  expect(left).toEqual(expect.arrayContaining(reached));
                  expect(reached.length).toBe(Math.min(budget, left.length));
                } else expect(reached).toEqual(left);
              }
        }),
        { numRuns: 9 },
      );
    },
  );

  test.each(policies)('under %s what was saved goes on bit for bit', async (_, policy) => {
    await fc.assert(
      fc.asyncProperty(numbers, async ({ prompt, steps, budget, every, seed }) => {
        const sequence = new Sequence(model),
          fed = ids(prompt + 2 * steps, seed);
        await sequence.prefill(fed.slice(0, prompt), { policy, ...(policy !== id && { budget }) });
        for (const token of fed.slice(prompt, prompt + steps)) await sequence.step(token, every);
        const loaded = await loadCache(model, await saveCache(sequence), { policy });
        expect(loaded.kept()).toEqual(sequence.kept());
        for (const token of fed.slice(prompt + steps))
          for (const each of [sequence, loaded]) await each.step(token, every);
        expect(await loaded.logits()).toEqual(await sequence.logits());
        expect(loaded.kept()).toEqual(sequence.kept());
        for (const each of [sequence, loaded]) each.destroy();
      }),
      { numRuns: 6 },
    );
  });
});

test('what a window made unreachable is freed and counted, in blocks as at once, and costs no logit', async () => {
  const model = models.get('gemma3')!, // of the list above
    { windows } = model.config.attention,
    prompt = ids(40, 5),
    { kvHeads: G, headDim: d } = commonHeads(model.config);
  const whole = await generate(model, { ids: prompt, maxNewTokens: 0, logits: 1 });
  for (const block of [40, 7, 1]) {
    const { report, logits } = await generate(model, { ids: prompt, block, maxNewTokens: 0, logits: 1 }),
      held = windows.map((window) => Math.min(window, 40));
    expect(report.counts['unreachable']).toBe(held.reduce((sum, n) => sum + G * (40 - n), 0));
    expect(report.kept.map((heads) => heads.map((positions) => positions.length))).toEqual(
      held.map((n) => Array(G).fill(n)),
    );
    expect(report.bytes.live).toBe(held.reduce((sum, n) => sum + G * n * 4 * (2 * d + 1), 0));
    expect(relative(logits![0], whole.logits![0])).toBeLessThan(1e-5);
  }
});

test('budgets are of slots that exist: a share of the prompt, or more than a window, is the window there', async () => {
  const model = models.get('gemma3')!, // of the list above
    { windows } = model.config.attention;
  for (const budget of [20, '50%'] as const) {
    const { report } = await generate(model, {
      ids: ids(40, 5),
      policy: compose(snapkv({ window: 4 }), topK()),
      budget,
      maxNewTokens: 0,
    });
    expect(report.budgets).toEqual(
      windows.map((window) => Array(commonHeads(model.config).kvHeads).fill(Math.min(window, 20))),
    );
    expect(report.kept.map((heads) => heads.map((positions) => positions.length))).toEqual(report.budgets);
  }
});

test.each(['gemma3', 'smollm3'] as const)(
  '%s goes on past its positions: each layer re-rotates by its own rope',
  async (name) => {
    const model = models.get(name)!, // of the list above
      prompt = ids(20, 3);
    const policy = compose(streaming({ sinks: 0 }), topK()),
      near = new Sequence(model, undefined, { window: 24 });
    await near.prefill(prompt, { policy, budget: 10 });
    for (const token of ids(9, 7)) await near.step(token, 5);
    // Rotations are relative: feeding the kept tokens at the positions that they were moved to differs
    // only by their history.
    const rebuilt = new Sequence(model);
    await rebuilt.prefill(prompt, { policy, budget: 10 });
    for (const token of ids(9, 7)) await rebuilt.step(token, 5);
    expect(near.kept()).toEqual(rebuilt.kept());
    expect(near.progress.text.ids).toEqual(rebuilt.progress.text.ids);
    // A layer's scores of neighbours depend on distances only, and streaming keeps neighbours.
    expect(relative((await near.logits())[0], (await rebuilt.logits())[0])).toBeLessThan(2e-5);
    for (const each of [near, rebuilt]) each.destroy();
  },
);

describe('early tokens that a layer freezes', () => {
  const frozenBy = (name: Name, psi: number, sinks: number, n: number) => {
    const slots = slotsOf(name),
      layers = Math.max(...slots) + 1,
      start = Math.floor((3 * layers) / 4);
    return (layer: number, t: number): boolean => {
      // a reader leaves what the layer whose slots it reads left; a layer without slots, what the last one below it that has them left
      const l = slots[layer] < 0 ? Math.max(...slots.slice(0, layer + 1)) : slots[layer];
      return (
        t >= sinks && t < Math.min(n - 1, Math.floor((1 - psi ** ((l + 1 - start) / (layers - start))) * n)) && l > 0
      );
    };
  };
  const logitsOf = async (name: Name, policy: Policy, fed: readonly number[]): Promise<readonly Float32Array[]> => {
    const sequence = new Sequence(models.get(name)!); // of the list above
    await sequence.prefill(fed, { policy, rows: fed.length });
    const logits = await sequence.logits();
    sequence.destroy();
    return logits;
  };
  const reuses = [
    ...names.map((name) => [name, 'hidden'] as const),
    ...(['gemma2', 'mistral', 'lfm2', 'qwen3_5', 'granitemoehybrid'] as const).map((name) => [name, 'kv'] as const),
  ];
  test.each(inTurn(reuses, 2))(
    'keep their hidden state: logits of %s are those of the float64 oracle, reuse=%s',
    async (name, reuse) => {
      await fc.assert(
        fc.asyncProperty(
          fc.integer({ min: 2, max: 40 }),
          fc.nat({ max: 60 }),
          fc.double({ min: 0.1, max: 1, noNaN: true }),
          async (n, seed, psi) => {
            const fed = ids(n, seed),
              got = await logitsOf(name, etf({ psi, sinks: 2, reuse }), fed),
              want = oracleLogits(
                config(name),
                weights.get(name)!, // of the list above
                fed,
                undefined,
                frozenBy(name, psi, 2, n),
                reuse === 'kv',
              );
            // norms of what memories of a few tokens give stretch what was rounded
            const most = name === 'qwen3_5' ? 5e-5 : 1e-5;
            for (const [t, row] of want.entries()) expect(relative(got[t], row)).toBeLessThan(most);
          },
        ),
        { numRuns: 9 },
      );
    },
  );

  test.each(['gemma3', 'smollm3'] as const)(
    'keys of the layer below cannot stand for keys that %s turns otherwise: the refusal says what was asked for, why, and what instead',
    async (name) => {
      const fed = ids(20, 1),
        early = method('early', { options: etf.options }, (o) => compose(psaw(), etf(o)));
      for (const [policy, called] of [
        [etf({ psi: 0.5, reuse: 'kv' }), 'etf(reuse=kv)'],
        [early({ reuse: 'kv' }), 'early(reuse=kv)'],
      ] as const) {
        const refusal = await logitsOf(name, policy, fed).catch((error: Error) => error.message);
        expect(refusal).toContain(`${called}: etf would copy the keys of early tokens from the layer below`);
        expect(refusal).toMatch(/turn keys by RoPE bases of their own \(layer \d otherwise than layer \d\)/);
        expect(refusal).toMatch(/: leave reuse=kv out, .* or take a policy without etf$/);
      }
      await logitsOf(name, early(), fed);
    },
  );
});

test('a prefix of windows is shared whole, from the last token but one, or not at all', async () => {
  const model = models.get('gemma3')!, // of the list above
    prompt = ids(30, 2),
    store = createPrefixStore(model, { maxBytes: 1e9 });
  await store.add(prompt);
  for (const [next, reused] of [
    [[...prompt, 5, 6], 30],
    [prompt, 29],
    [[...prompt.slice(0, 12), 9], 0],
  ] as const) {
    const before = store.counts.reused,
      sequence = await store.sequence(next),
      alone = new Sequence(model);
    await alone.prefill(next);
    expect(store.counts.reused - before).toBe(reused);
    expect(relative((await sequence.logits())[0], (await alone.logits())[0])).toBeLessThan(1e-5);
    for (const each of [sequence, alone]) each.destroy();
  }
  store.destroy();
});

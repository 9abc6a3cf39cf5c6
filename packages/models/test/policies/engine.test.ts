import { beforeAll, describe, expect, test } from 'vitest';
import { cadence, compose } from '@kv/core';
import { compile } from '@kv/core/engine';
import { generate, loadModel, Sequence } from '../../src/index.ts';
import { watchLayers, slotScores, commonHeads } from '@kv/engine';
import type { HostModel } from '../../src/index.ts';
import { confidence, detectorFile, embedding, learned, readDetector, sponsorship } from '@kv/scorers-sponsorship';
import type { Detector } from '@kv/scorers-sponsorship';
import { calibration } from '@kv/scorers-triattention';
import { topK } from '@kv/selectors-top-k';
import { parsePolicy, policy as policyOf, policyNames } from '@kv/policies';
import { calibrated } from './calibrated.ts';
import { goldenFolder, goldenOf } from './goldens.ts';
import type { Golden } from './goldens.ts';

let model: HostModel, golden: Golden;
beforeAll(async () => {
  golden = goldenOf('llama');
  const calibratedFolder = await calibrated(goldenFolder('llama'), golden.ids);
  model = calibratedFolder.model;
  return calibratedFolder.remove;
});

describe.each([
  'streaming(sinks=4)',
  'knorm',
  'snapkv(window=16,kernel=5)',
  'tova',
  'meanAttention',
  'pyramidkv(window=16,kernel=5,beta=20)',
  'chunkkv(size=10,window=16)',
  'criticalkv(window=16)',
  'keydiff',
  'lagkv(lag=32)',
  'cur',
])('%s as the goldens name it', (text) => {
  test.each([0.5, 0.75])('%d evicted: the same sets, but for ties that @kv/models judges in float64', async (ratio) => {
    const { kept } = (
      await generate(model, {
        ids: golden.ids,
        policy: parsePolicy(text),
        budget: Math.floor(240 * (1 - ratio)),
        maxNewTokens: 0,
      })
    ).report;
    const name = `${text.split('(')[0].replace('criticalkv', 'criticalkv_snapkv').replace('meanAttention', 'observed')}_${ratio}`,
      want = golden.policies[name].kept;
    expect(kept.flat().map((set) => set.length)).toEqual(want.flat().map((set) => set.length));
    const missing = want.flatMap((heads, l) => heads.flatMap((set, g) => set.filter((p) => !kept[l][g].includes(p))));
    // two occurrences of a token have the same norm; a SnapKV boundary is 5e-6 apart
    expect(missing.length).toBeLessThanOrEqual(name === 'knorm_0.75' ? 2 : 1);
  });
});

/** Options for budget 48, with windows that fit in it. */
const OPTIONS: Readonly<Record<string, object>> = {
  crystalcache: { recent: 16 },
  crystalcacheBreath: { recent: 16, interval: 4 },
  ...Object.fromEntries(
    [
      'snapkv',
      'snapkvCaote',
      'snapkvFastCaote',
      'pyramidkv',
      'pyramidal',
      'chunkkv',
      'adakv',
      'criticalkv',
      'cake',
      'dynamickv',
      'rkv',
      'defensivekv',
      'layerDefensivekv',
      'scissorhands',
      'snapkvMerge',
      'alpha',
      'entropyChunkkv',
      'dropkv',
    ].map((name) => [name, { window: 8 }]),
  ),
  finch: { question: 8 },
  questionAttention: { question: 8 },
};
/** A policy that reads a file made by training. */
const TRAINED = 'learnRank';
describe.each(policyNames.filter((name) => name !== TRAINED && compile(policyOf(name)).evicts))(
  '%s in the engine',
  (name) => {
    test('at once, in blocks and while decoding: every head ends at its budget', async () => {
      const policy = policyOf(name, OPTIONS[name]);
      for (const how of [{}, { block: 64, every: 4 }]) {
        const { report, tokens } = await generate(model, {
          ids: golden.ids,
          policy,
          budget: 48,
          maxNewTokens: 8,
          ...how,
        });
        expect(tokens).toHaveLength(8);
        report.kept.forEach((heads, l) =>
          heads.forEach((set, g) =>
            expect(set.length).toBeLessThanOrEqual(report.budgets[l][g] + ('every' in how ? 4 : 8)),
          ),
        );
      }
    });
  },
);

test('TA-Fast-Embedding reads the embeddings of the model, in blocks too: what means "password" there vouches', async () => {
  const word = golden.ids[100],
    kept = async (anchors: Detector): Promise<readonly number[]> =>
      (
        await generate(model, {
          ids: golden.ids,
          policy: compose(sponsorship({ reach: 3, anchors }), topK()),
          budget: 16,
          block: 64,
          maxNewTokens: 0,
        })
      ).report.kept[0][0];
  const own = await kept(embedding({ concepts: [model.tokenizer.decode([word])], above: 0.999 })),
    at = golden.ids.flatMap((id, i) => (id === word ? [i] : []));
  for (const i of at.slice(0, 4))
    expect(own).toEqual(expect.arrayContaining([i + 1, i + 2, i + 3].filter((j) => j < golden.ids.length)));
  expect(
    (
      await generate(model, {
        ids: golden.ids,
        policy: parsePolicy('taFast(anchors=embedding)'),
        budget: 16,
        maxNewTokens: 2,
      })
    ).report.policy,
  ).toContain('anchors=embedding');
});

test('TA-Learned reads hidden states of the model: one event after the prompt, in blocks too, then one a cadence; without a detector it says where one comes from', async () => {
  const {
      config: { hidden: width },
    } = model,
    file = detectorFile({
      width,
      first: Float32Array.from({ length: 4 * width }, (_, i) => Math.sin(i * i) / 4),
      second: Float32Array.of(1, -1, 1, -1),
    }),
    states: Float32Array[] = [];
  await watchLayers(model, golden.ids, {
    hidden: (rows) => {
      states.push(rows);
    },
  });
  const f = confidence(readDetector(file), Float32Array.from(states.flatMap((rows) => [...rows]))),
    sure = [...f].sort((a, b) => b - a)[4],
    anchors = golden.ids.flatMap((_, i) => (f[i] > sure + 1e-4 ? [i] : []));
  expect(anchors).toHaveLength(4);
  const policy = compose(sponsorship({ reach: 3, anchors: learned({ weights: file, above: sure + 1e-4 }) }), topK()),
    want = new Set(anchors.flatMap((i) => [i + 1, i + 2, i + 3]).filter((i) => i < golden.ids.length));
  for (const how of [{}, { block: 64 }]) {
    const { report } = await generate(model, { ids: golden.ids, policy, budget: want.size, maxNewTokens: 0, ...how });
    expect(report.counts['events']).toBe(1);
    for (const heads of report.kept) for (const set of heads) expect(new Set(set)).toEqual(want);
  }
  const { report } = await generate(model, {
    ids: golden.ids,
    policy: compose(policy, cadence({ every: 2 })),
    budget: 16,
    maxNewTokens: 7,
  });
  expect(report.counts['events']).toBe(4);
  await expect(
    generate(model, { ids: golden.ids, policy: parsePolicy('taFast(anchors=learned)'), budget: 16, maxNewTokens: 0 }),
  ).rejects.toThrow('learned: expected learned-detector.safetensors next to the model, got none');
});

test("the embedded model's own detector: the value of a code survives at a budget of 24, in every layer and head", async () => {
  const own = await loadModel('embedded'),
    said = 'It was a fine morning. The Paris code is: 7KQ2M9XP. ',
    text = `${'The river was still and the water was cold. '.repeat(4)}${said}${'He went down the road and did not look back. '.repeat(6)}`;
  const { ids, offsets } = own.tokenizer.encode(text),
    from = text.indexOf('7KQ2'),
    value = ids.flatMap((_, i) => (offsets[i][0] < from + 8 && offsets[i][1] > from ? [i] : []));
  const kept = async (anchors: string) =>
    (
      await generate(own, {
        ids,
        policy: parsePolicy(`taFast(reach=10,slots=10,anchors=${anchors})`),
        budget: 24,
        maxNewTokens: 0,
      })
    ).report.kept.flat();
  for (const set of await kept('learned')) expect(set).toEqual(expect.arrayContaining(value));
  expect(value.length).toBeGreaterThan(3);
});

test.each(['taFast', 'fullTa'])(
  '%s(every=1) is algorithm 1: at most K slots after every generated token, budgets B_i 0.9^t 0.8^(j - i)',
  async (name) => {
    const own = await loadModel('embedded'),
      text = `${'The river was still and the water was cold. '.repeat(4)}The code is: 7KQ2M9XP. ${'He went down the road and did not look back. '.repeat(6)}`,
      { ids } = own.tokenizer.encode(text);
    /** Returns the most slots of a head after each token, and the vouchers' values in layer 0, by position. */
    const ran = async (policy: string) => {
      const sequence = new Sequence(own),
        most: number[] = [],
        worth: Map<number, number>[] = [];
      const note = async (): Promise<void> => {
        const kept = sequence.kept();
        most.push(Math.max(...kept.flat().map((set) => set.length)));
        const [row] = await slotScores(sequence, compose(sponsorship(), topK()), 0);
        worth.push(new Map(kept[0][0].map((position, i) => [position, row[i]])));
      };
      await sequence.prefill(ids, { policy: parsePolicy(policy), budget: 16 });
      const { every } = sequence.active.policy.hooks('cadence')[0] ?? {};
      await note();
      for (let t = 0; t < 20; t++) {
        await sequence.step(await sequence.next(), every);
        await note();
      }
      sequence.destroy();
      return { most, worth };
    };
    const { most, worth } = await ran(`${name}(reach=6,every=1)`);
    expect(most).toEqual(most.map(() => 16));
    expect((await ran(`${name}(reach=6)`)).most.at(-1)).toBe(36);
    const sponsored = [...worth[0]].filter(([, value]) => value > 0);
    expect(sponsored.length).toBeGreaterThanOrEqual(4);
    const steps = sponsored.map(([, value]) => Math.log(value / 15) / Math.log(0.8)); // j - i
    for (const step of steps) expect(step).toBeCloseTo(Math.round(step), 4);
    expect(Math.min(...steps)).toBeCloseTo(1, 4);
    for (const [t, at] of worth.entries())
      for (const [position, value] of sponsored)
        if (at.has(position)) expect(at.get(position)! / (value * 0.9 ** t)).toBeCloseTo(1, 4); // it has the voucher
    expect(worth.at(-1)!.has(sponsored[0][0])).toBe(true); // 20 tokens later
    own.destroy();
  },
);

test('alpha as its paper has it: one kept set for the whole model, again while decoding; lambda = 0 is the base', async () => {
  const keptBy = async (policy: string, maxNewTokens = 0) =>
    (await generate(model, { ids: golden.ids, policy: parsePolicy(policy), budget: 40, maxNewTokens })).report;
  for (const policy of ['alphaTriattention', 'alphaTriattention(every=4)']) {
    const { kept, counts } = await keptBy(policy, 9),
      sets = kept.flat();
    for (const set of sets) expect(set).toEqual(sets[0]);
    expect([sets[0].length, counts.events]).toEqual([40, policy.includes('every') ? 3 : 1]);
  }
  for (const [policy, plain] of [
    ['alpha(lambda=0,window=16)', 'snapkv(window=16)'],
    ['alphaTriattention(lambda=0)', '@kv/scorers-triattention:futureQueryScores ∘ zScore ∘ perModel ∘ topK'],
  ])
    expect((await keptBy(policy)).kept).toEqual((await keptBy(plain)).kept);
  expect((await keptBy('alphaTriattention')).kept).not.toEqual((await keptBy('alphaTriattention(lambda=0)')).kept);
});

test('TriAttention as its code runs: the prompt stays whole, generated tokens are pruned to the budget', async () => {
  const { ids } = golden,
    policy = parsePolicy('triattention(prompt=true,every=4)'),
    { kept } = (await generate(model, { ids, policy, budget: ids.length + 3, maxNewTokens: 13 })).report;
  for (const set of kept.flat()) {
    expect(set.slice(0, ids.length)).toEqual([...ids.keys()]);
    expect(set.length).toBe(ids.length + 3);
  }
});

test('the weights of the utility, what always stays, and a pool of 16 + 0 are options', () => {
  expect(parsePolicy('taFast(beta=1,gamma=0.6,lambda=0.2,sinks=2,recent=4,slots=0,reach=6)').label).toBe(
    'weighted(1*recency,0.6*structure,-0.2*frequency,1*sponsorship) ∘ mandatory(sinks=2,recent=4) ∘ protectedPartition(sponsorship,slots=0) ∘ topK',
  );
  expect(parsePolicy('fullTa(alpha=0.5,delta=0.1)').label).toContain('weighted(0.5*h2o(recent=0)');
});

test('the breath cycle in a long generation: the cache comes back to its budget at every breath, sinks may go, and a static graph keeps other slots', async () => {
  const run = async (gain: number) =>
    (
      await generate(model, {
        ids: golden.ids,
        policy: parsePolicy(
          `weighted(10*saliency,10*rarity) ∘ clipToRange ∘ mandatory(sinks=4,recent=16) ∘ trunks(run=16) ∘ breath(interval=16,decay=0.2,gain=${gain}) ∘ branchDissolution ∘ cadence(every=16)`,
        ),
        budget: 64,
        maxNewTokens: 81,
      })
    ).report;
  const [pulsing, still] = [await run(1), await run(0)];
  for (const report of [pulsing, still]) {
    expect(report.counts['events']).toBe(6); // after the prompt and after 16, 32, 48, 64 and 80 tokens
    expect(report.mostSlots).toBe(240);
    for (const heads of report.kept)
      for (const set of heads) {
        expect(set.length).toBeLessThanOrEqual(64);
        expect(set.length).toBeGreaterThanOrEqual(62);
      }
    expect(report.kept[0][0].some((p) => p >= 240)).toBe(true);
  }
  expect(pulsing.kept).not.toEqual(still.kept);
});

test.each(['qfilter', 'triattention', 'expectedAttentionStats'])(
  '%s need not wait for the whole prompt: in blocks no head holds more than budget and block, and a single block keeps what one event keeps',
  async (name) => {
    const policy = parsePolicy(name),
      inBlocks = (await generate(model, { ids: golden.ids, policy, budget: 48, block: 64, maxNewTokens: 0 })).report;
    expect(inBlocks.counts['events']).toBe(4); // after 64, 128, 192 and 240 tokens
    expect(inBlocks.mostSlots).toBe(48 + 64);
    const sequence = new Sequence(model),
      at = (kept: readonly (readonly (readonly number[])[])[]): unknown =>
        kept.map((heads) => heads.map((set) => [...set]));
    await sequence.prefill(golden.ids, { policies: [policy] });
    await sequence.evict(policy, 48);
    expect(at((await generate(model, { ids: golden.ids, policy, budget: 48, maxNewTokens: 0 })).report.kept)).toEqual(
      at(sequence.kept()),
    );
    sequence.destroy();
  },
);

test('a policy without its statistics next to the model says how to make them', async () => {
  for (const [name, file] of [
    ['triattention', 'pre-rope'],
    ['expectedAttentionStats', 'query-statistics'],
    ['qfilter', 'q-filters'],
  ] as const)
    await expect(
      generate(await loadModel(goldenFolder('llama')), {
        ids: golden.ids,
        policy: parsePolicy(name),
        budget: 48,
        maxNewTokens: 0,
      }),
    ).rejects.toThrow(
      `expected ${file}.safetensors next to the model, got none: make it with 'node tools/calibrate.mjs MODEL'`,
    );
});
test('TriAttention on a real model: queries turned back from what attention reads are those of an unrotated pass', async () => {
  const seen: Float32Array[] = [],
    flat: Float32Array[] = [],
    { decoder } = model,
    ids = golden.ids.slice(0, 20);
  await watchLayers(model, ids, {
    queries: (l, q, { rotary, cos, sin }) => {
      if (l === 0) {
        const one = calibration(model.config.queryHeads, commonHeads(model.config).headDim);
        one.add({ q, cos, sin, half: rotary / 2 });
        seen.push(one.take().mean);
      }
    },
  });
  const { q } = await decoder.project(0, decoder.embed(ids), new Uint32Array(ids.length)); // no rotation at position 0
  const d = commonHeads(model.config).headDim;
  for (let h = 0; h < model.config.queryHeads; h++)
    flat.push(
      Float32Array.from(
        { length: d },
        (_, c) => ids.reduce((s, _id, t) => s + q[(h * ids.length + t) * d + c], 0) / ids.length,
      ),
    );
  flat.forEach((row, h) => row.forEach((x, c) => expect(seen[0][h * d + c]).toBeCloseTo(x, 5)));
});

/** Layers that read the slots of an earlier layer: one layer to policies, with the query heads of all that read it. */
import { certificates } from '@kv/certificates';
import { matrixOf, denseRows, type Weights } from '@kv/checkpoints';
import { compose, KvError, type Policy } from '@kv/core';
import { compile } from '@kv/core/engine';
import {
  hostRuntime,
  longestPrefix,
  referenceEngine,
  slotModel,
  stepTogether,
  type RunningHostModel,
  type Runtime,
} from '@kv/engine';
import { relative } from '@kv/engine-testing/run';
import { fixture } from '@kv/model-testing/fixture';
import { reference, referenceJson } from '@kv/model-testing/reference';
import { policy as named, policyNames } from '@kv/policies';
import { caote } from '@kv/scorers-caote';
import { h2o, snapkv, tova } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import { describe, expect, test } from 'vitest';
import {
  cpuRuntime,
  generate,
  loadCache,
  loadModel,
  saveCache,
  Sequence,
  type Model,
  type ModelConfig,
} from '../src/index.ts';
import { best, cut, oracle64, scores64, type Oracle64 } from './llama.oracle.ts';
import { weights64 } from './weights64.ts';

/** Which layer's slots each of four layers reads; the second lets the event of layer 1 come before that of layer 0. */
const sharings = { 'two layers read layer 1': [0, 1, 1, 1], 'layers 0 and 1 in turn': [0, 1, 1, 0] } as const;
type Sharing = readonly number[];
const folder = reference('data/goldens/llama'),
  { ids } = referenceJson<{ ids: number[] }>('data/goldens/llama/golden.json');

/** Loads the golden Llama as a model whose layers share slots: those that read others' lose their keys and values. */
async function shared(slotsOf: Sharing, runtime: Runtime<RunningHostModel>): Promise<Model> {
  let config: ModelConfig | undefined;
  const model = await loadModel(folder, {
    runtime: {
      name: runtime.name,
      start: ({ weights, ...source }) => {
        const { queryHeads, hidden, mixers } = source.config;
        config = {
          ...source.config,
          mixers: mixers.map((mixer, l) =>
            mixer.kind === 'attention' && slotsOf[l] !== l ? { ...mixer, slotsOf: slotsOf[l] } : mixer,
          ),
        };
        const own: Weights = {
          ...weights,
          project: async (l) => {
            const all = await weights.project(l),
              rows = queryHeads * 16;
            if (slotsOf[l] === l) return all;
            return { ...all, qkv: matrixOf(denseRows(all.qkv, 0, rows).slice(), rows, hidden) };
          },
        };
        return runtime.start({ ...source, config, weights: own });
      },
    },
  });
  return { ...model, config: config! }; // set by `start`
}

const weights = weights64(`${folder}/model.safetensors`),
  oracleOf = (model: Model, slotsOf: Sharing): Oracle64 => oracle64(model.config, weights, slotsOf);

const tokens = (n: number): number[] => Array.from({ length: n }, (_, i) => 3 + ((7 * i * i + 11 * i) % 61));

const dot = (a: ArrayLike<number>, b: ArrayLike<number>): number => Array.from(a).reduce((s, x, i) => s + x * b[i], 0);

/** CAOTE by its formula, p / (1 - p) * |o - v| of every head that reads a slot, over the newest query's weights. */
function caote64(o: Oracle64, l: number): number[][] {
  const heads = o.queries[l].at(-1)!,
    G = o.cache[l].length,
    group = heads.length / G;
  return o.cache[l].map((entries, g) => {
    const total = entries.map(() => 0);
    for (const q of heads.slice(g * group, (g + 1) * group)) {
      const e = entries.map(({ key }) => Math.exp(dot(q, key) / Math.sqrt(q.length))),
        sum = e.reduce((a, b) => a + b, 0),
        p = e.map((x) => x / sum),
        out = Array.from(entries[0].value, (_, c) => p.reduce((s, x, j) => s + x * entries[j].value[c], 0));
      p.forEach((x, j) => {
        total[j] += (x / (1 - x)) * Math.hypot(...out.map((y, c) => y - entries[j].value[c]));
      });
    }
    return total.map((s, j) => (j === entries.length - 1 ? Infinity : s / group));
  });
}
const h2o64 = (o: Oracle64, l: number): number[][] =>
  o.cache[l].map((entries) =>
    entries.map(({ received }, i) => (i >= entries.length - 4 ? Infinity : received.reduce((a, b) => a + b))),
  );
const cases: readonly (readonly [string, Policy, (o: Oracle64, l: number) => number[][]])[] = [
  ['h2o', compose(h2o({ recent: 4 }), topK()), h2o64],
  ['snapkv', compose(snapkv({ window: 4 }), topK()), (o, l) => scores64['snapkv'](o, l, { window: 4, kernel: 5 })],
  ['tova', compose(tova(), topK()), (o, l) => scores64['tova'](o, l)],
  ['caote', compose(snapkv({ window: 1, kernel: 1 }), caote(), topK()), caote64],
];

describe.each([
  ['two layers read layer 1', 'plain loops', hostRuntime({ engine: referenceEngine() })],
  ['layers 0 and 1 in turn', 'the module', cpuRuntime({ threads: 1 })],
] as const)('%s, by %s', (name, _engine, runtime) => {
  const slotsOf = sharings[name],
    owners = [...new Set<number>(slotsOf)],
    loaded = shared(slotsOf, runtime),
    prompt = ids.slice(0, 40);
  test.each(cases)('%s keeps in blocks what the formula over all readers keeps', async (_policy, policy, scores) => {
    const model = await loaded;
    for (const block of [1, 7, 64]) {
      const o = oracleOf(model, slotsOf);
      let logits = new Float64Array(0);
      for (const [i, id] of prompt.entries()) {
        logits = o.feed(id) as Float64Array<ArrayBuffer>;
        if ((i + 1) % block !== 0 && i + 1 !== prompt.length) continue;
        for (const l of owners)
          if (o.cache[l][0].length > 12)
            cut(
              o,
              l,
              scores(o, l).map((row) => best(row, 12)),
            );
      }
      const { report, logits: ours } = await generate(model, {
        ...{ ids: prompt, policy, budget: 12, block, maxNewTokens: 0, logits: 1 },
      });
      expect(report.kept).toEqual(
        owners.map((l) => o.cache[l].map((entries) => entries.map(({ position }) => position))),
      );
      expect(relative(ours![0], logits)).toBeLessThan(1e-4);
    }
  });
});

describe('a model of which two layers keep slots and two read them', () => {
  const slotsOf = sharings['layers 0 and 1 in turn'],
    prompt = ids.slice(0, 61),
    models = Promise.all([
      shared(slotsOf, cpuRuntime({ threads: 1 })),
      shared(slotsOf, hostRuntime({ engine: referenceEngine() })),
    ]);

  test('its slots are counted once: bytes, budgets, reports and copies are of two layers', async () => {
    const [model] = await models,
      slot = 2 * 2 * 4 * (2 * 16 + 1); // layers, KV heads, bytes of a number, a key, a value and a position
    const { report } = await generate(model, {
      ids: prompt,
      policy: 'pyramidal(window=4)',
      budget: 20,
      maxNewTokens: 0,
    });
    expect(report.cache.bytesPerToken).toBe(slot);
    expect(report.budgetBytes).toBe(20 * slot);
    expect(report.kept).toHaveLength(2);
    expect(report.cache.liveBytes).toBe(report.budgets.flat().reduce((sum, n) => sum + n, 0) * (slot / 4));
    expect(slotModel(model.config).mixers).toMatchObject([{ queryHeads: 8 }, { queryHeads: 8 }]);
    const sequence = new Sequence(model);
    await sequence.prefill(prompt, { policies: ['snapkv(window=4)', 'h2o'] });
    for (const l of [0, 1])
      expect(sequence.memory.slots.layerContext(l, sequence.active)).toMatchObject({ queryHeads: 8, kvHeads: 2 });
    sequence.destroy();
  });

  test.each([
    ['full', {}],
    ['snapkv(window=4)', { budget: 12, every: 5 }],
    ['tova', { budget: 12, every: 5, block: 8 }],
    ['snapkv(window=4) | topK | levels(f16=0.5,q8=0.5)', { budget: 12, every: 5, cache: 'f16' }],
    ['h2o(recent=4)', { budget: 14, every: 3 }],
    ['h2o(recent=4,rows=kv) | topK | rerotate', { budget: 14, every: 3, cache: 'q8' }],
    ['h2o(over=block,recent=2) | caote', { budget: 14, block: 16 }],
    ['snapkv(window=4) | twoStageScores', { budget: 14 }],
    ['kvzipModelWide', { budget: 12 }],
    ['h2o(recent=4) | topK | etf(psi=0.5,sinks=2)', { budget: 14, every: 3 }],
    ['psaw', {}],
    ['quest(page=4,slots=8,dense=0)', {}],
    ['cpe(budget=12,sinks=2,local=4)', {}],
    ['cpe(budget=12,sinks=2,local=4,compare=hidden,threshold=0.1)', {}],
    ['view(h2o(recent=2) | topK,budget=8)', {}],
  ] as const)('%s: the module keeps and says what plain loops do', async (policy, options) => {
    const all = { ids: prompt, policy, maxNewTokens: 12, logits: 20, certify: certificates(), ...options };
    const [ours, theirs] = await Promise.all((await models).map((model) => generate(model, all)));
    expect(ours.report.kept).toEqual(theirs.report.kept);
    expect(ours.tokens).toEqual(theirs.tokens);
    // a number between two codes may be rounded otherwise
    const bound = 'cache' in options ? 1e-3 : 2e-5;
    for (const [i, row] of ours.logits!.entries()) expect(relative(row, theirs.logits![i])).toBeLessThan(bound);
  });

  test('several sequences together say what each says alone, and a shared prefix is as without the store, to the bit', async () => {
    const [model] = await models,
      prompts = [ids.slice(0, 40), ids.slice(30, 70)],
      begun = async (prompt: readonly number[]): Promise<Sequence> => {
        const sequence = new Sequence(model);
        await sequence.prefill(prompt, { policy: 'snapkv(window=4)', budget: 16 });
        return sequence;
      };
    const [together, alone] = await Promise.all([0, 1].map(() => Promise.all(prompts.map(begun))));
    for (const id of ids.slice(100, 104)) {
      await stepTogether(together.map((sequence) => ({ sequence, token: id })));
      for (const sequence of alone) await sequence.step(id);
    }
    for (const [i, sequence] of together.entries()) expect(await sequence.logits()).toEqual(await alone[i].logits());
    const read = async (sequence: Sequence): Promise<Sequence> => {
      for await (const _ of sequence.prefillParts(prompts[0].slice(sequence.progress.length), { part: 8 }));
      return sequence;
    };
    const first = await read(new Sequence(model));
    const second = first.fork(longestPrefix([{ sequence: first, inParts: 40 }], prompts[0], 8)?.shared);
    expect(second.progress.length).toBe(32);
    expect(await (await read(second)).logits()).toEqual(await first.logits());
    for (const each of [...together, ...alone, first, second]) each.destroy();
  });

  test('a view that keeps numbers of KV heads, layers or the model is refused in a sentence', async () => {
    const [model] = await models;
    await expect(generate(model, { ids: prompt, policy: 'hshare', maxNewTokens: 1 })).rejects.toThrow(
      /^policy: 'hshare' hides slots by numbers that it keeps of the model .* where layers 0, 3 read the same slots/,
    );
  });
});

describe('Gemma 4', async () => {
  const model = await loadModel(fixture('gemma4')),
    plain = await loadModel(fixture('gemma4'), { engine: referenceEngine() }),
    prompt = tokens(72);

  // all of them nightly, see .ci/full.d/shared-slots
  const names = process.env.KV_FULL === '1' ? policyNames : policyNames.filter((_, i) => i % 15 === 0);
  test.each(names)('%s keeps the same in blocks of 1, 7, 64 and whole, or says why not', async (name) => {
    const policy = named(name, name.startsWith('crystalcache') ? { recent: 16 } : {}),
      kept: unknown[] = [];
    for (const [on, part] of [
      [model, 72],
      [plain, 64],
      [model, 7],
      [model, 1],
    ] as const) {
      const sequence = new Sequence(on);
      try {
        for await (const _ of sequence.prefillParts(prompt, {
          policy,
          part,
          ...(compile(policy).evicts && { budget: '60%' as const }),
        }));
        kept.push(sequence.kept());
        for (const id of [9, 8]) await sequence.step(id);
        expect((await sequence.logits())[0].every(Number.isFinite)).toBe(true);
      } catch (error) {
        if (!KvError.is(error)) throw error;
        expect(error.message).toMatch(
          /layers 1, 3, 4, 6 read the same slots|\.safetensors|turn keys by RoPE bases of their own|tokens once more over the prompt/,
        );
        kept.push(error.message);
      }
      sequence.destroy();
    }
    expect(kept[0]).toHaveLength(typeof kept[0] === 'string' ? kept[0].length : 3);
    for (const other of kept.slice(1)) expect(other).toEqual(kept[0]);
  });
});

test.each([
  ['Gemma 4', 'snapkv(window=4)'],
  ['Gemma 4', 'h2o(recent=4)'],
  ['a Llama', 'h2o(recent=4)'],
  ['a Llama', 'view(snapkv(window=2) | topK,budget=8)'],
  ['a Llama', 'cpe(budget=12,sinks=2,local=4)'],
])('%s under %s: a fork and a saved cache go on to the bit', async (name, policy) => {
  const model =
      name === 'Gemma 4'
        ? await loadModel(fixture('gemma4'))
        : await shared(sharings['layers 0 and 1 in turn'], cpuRuntime({ threads: 1 })),
    prompt = tokens(61),
    goOn = async (sequence: Sequence): Promise<readonly unknown[]> => {
      const out: unknown[] = [];
      for (let i = 0; i < 9; i++) {
        await sequence.append([9 + i]);
        if (i % 3 === 2 && !policy.startsWith('view') && !policy.startsWith('cpe')) await sequence.evict(policy, 14);
        out.push((await sequence.logits()).at(-1), sequence.kept());
      }
      return out;
    };
  const sequence = new Sequence(model);
  await sequence.prefill(prompt, { policy, policies: [policy] });
  const saved = await saveCache(sequence),
    fork = sequence.fork(),
    loaded = await loadCache(model, saved, { policy });
  expect(await saveCache(loaded)).toEqual(saved);
  const want = await goOn(sequence);
  for (const copy of [fork, loaded]) expect(await goOn(copy)).toEqual(want);
  for (const each of [sequence, fork, loaded]) each.destroy();
});

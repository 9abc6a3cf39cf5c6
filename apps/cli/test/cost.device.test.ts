import { commonHeads } from '@kv/engine';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { id } from '@kv/core';
import { compile } from '@kv/core/engine';
import type { CompiledPolicy } from '@kv/core/engine';
import { openGpu, planGpu } from '@kv/gpu';
import { sharedGpu } from '@kv/gpu-testing';
import { gpuRuntime, shapeCosts, sum } from '@kv/engine-webgpu';
import type { CostRecorder } from '@kv/engine-webgpu';
import { onlyAttention } from '@kv/checkpoints';
import { inTurn } from '@kv/model-testing/in-turn';
import { loadModel, Sequence } from '@kv/models';
import type { Model, ModelConfig } from '@kv/models';
import { parsePolicy, policy as policyOf, policyNames } from '@kv/policies';
import { greedyOrder } from '@kv/selectors-diversity';
import { evictionOrder } from '@kv/selectors-joint-eviction';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { deviceRows, deviceTable } from '../src/explain/device-table.ts';
import type { DeviceRow } from '../src/explain/device-table.ts';
import { predict } from '../src/explain/predict.ts';
import type { Prediction } from '../src/explain/predict.ts';
import { providedZeros } from '../src/explain/zero-inputs.ts';
import { SHAPES } from '../src/explain/shapes.ts';
import { kv } from './terminal.ts';

const packages = new URL('../../../packages/', import.meta.url);

const evicting = policyNames.map((name) => [name, compile(policyOf(name))] as const).filter(([, { evicts }]) => evicts);

const gpu = await sharedGpu(openGpu);

/** Of families whose plans take long: KV_FULL=1 runs them. */
const nightly = it.runIf(process.env['KV_FULL'] === '1');
afterAll(() => gpu?.destroy(), 60_000);

const SMALL: ModelConfig = {
  ...SHAPES['llama-3.2-1b'],
  ...{ layers: 2, queryHeads: 4, hidden: 32, ffn: 64, vocab: 99 },
  mixers: onlyAttention(2, { kvHeads: 2, headDim: 8 }),
  ropes: Array(2).fill({ ...SHAPES['llama-3.2-1b'].ropes[0], rotary: 8 }),
};

describe.skipIf(!gpu)('a plan', () => {
  it("gives the dispatches and bytes that @kv/gpu counts, for every policy's event", async () => {
    const costs = async (
      on: CostRecorder,
      policy: CompiledPolicy,
      length: number,
      budget: number,
    ): Promise<readonly number[]> => {
      const shape = await shapeCosts(on, SMALL),
        { score, select, compact } = await shape.event(policy, { length, budget, provided: providedZeros });
      shape.destroy();
      return [score, select, compact].flatMap(({ dispatches, bytes }) => [dispatches, bytes]);
    };
    for (const [name, policy] of inTurn(evicting, 15))
      for (const slots of name === 'adakv' || name === 'fullTa' ? [96, 700] : [96]) {
        // beyond 512 slots sorts take more dispatches
        const budget = Math.max(slots / 2, policy.minSlots(slots, slots / 2)),
          planned = await costs(planGpu(), policy, slots, budget);
        expect([name, ...(await costs(gpu!, policy, slots, budget))]).toEqual([name, ...planned]);
      }
    expect(evicting.length).toBeGreaterThan(30);
  }, 300_000); // software adapters on a busy machine
});

/** Policies that differ in what the device reads, scores, selects and moves, and with KV_FULL=1 more of each kind. */
const MEASURED = [
    'streaming',
    'tova',
    'sum(h2o,h2o(rows=kv)) ∘ topK',
    'snapkv(window=8) ∘ twoStageScores ∘ topK',
    'snapkvMerge',
    'cake',
    'snapkv(window=8) | topK | levels(f16=0.5,q8=0.5)',
  ],
  MORE = [
    'snapkv',
    'h2o',
    'h2o(rows=kv)',
    'chunkkv',
    'snapkvCaote',
    'questionAttention(question=6) ∘ topK',
    'scissorhands',
  ];
const BY_KV_HEAD = policyOf('h2o', { rows: 'kv' });
type Count = readonly [dispatches: number, bytes: number];
/** What `run` records. */
async function counted(run: () => Promise<unknown>): Promise<Count> {
  const { dispatches, bytes } = gpu!.counters;
  await run();
  return [gpu!.counters.dispatches - dispatches, gpu!.counters.bytes - bytes];
}
const less = (a: Count, b: Count): Count => [a[0] - b[0], a[1] - b[1]];

describe.skipIf(!gpu)('a model on the device', () => {
  const ids = Array.from({ length: 100 }, (_, i) => (i * 37 + 11) % 64),
    BUDGET = 16;
  async function onDevice(run: (model: Model) => Promise<void>, name = 'llama'): Promise<void> {
    const model = await loadModel(fileURLToPath(new URL(`model-testing/fixtures/${name}`, packages)), {
      runtime: gpuRuntime(gpu!),
    });
    try {
      await run(model);
    } finally {
      model.destroy();
    }
  }
  const prefilled = async (
    model: Model,
    options: Parameters<Sequence['prefill']>[1],
    then?: (sequence: Sequence) => Promise<Count>,
  ): Promise<Count> => {
    const sequence = new Sequence(model),
      count = await counted(() => sequence.prefill(ids, { rows: 0, ...options })),
      last = await then?.(sequence);
    sequence.destroy();
    return last ?? count;
  };

  it(
    'prefills, scores, selects and compacts with the dispatches and bytes of the plan',
    () =>
      onDevice(async (model) => {
        const { config } = model,
          plain = await prefilled(model, {}),
          n = ids.length,
          shape = await shapeCosts(planGpu(), config),
          { dispatches, bytes } = await shape.prefill(n);
        expect(plain).toEqual([dispatches, bytes]);
        for (const name of process.env.KV_FULL === '1' ? [...MEASURED, ...MORE] : inTurn(MEASURED, 4)) {
          const policy = parsePolicy(name),
            compiled = compile(policy),
            budget = Math.max(BUDGET, compiled.minSlots(n, BUDGET)),
            { score, select, compact } = (await predict(compiled, config, n, budget, 'f32')).device!,
            want = [score, select, compact].reduce(sum);
          const event = less(
            await prefilled(model, { policy, budget }),
            await prefilled(model, { policies: [policy] }),
          );
          expect([name, ...event]).toEqual([name, want.dispatches, want.bytes]);
        }
      }),
    300_000,
  );

  it(
    'passes layers that carry states, gates of what heads give, and routed experts, as planned',
    () =>
      onDevice(async (model) => {
        const { config } = model,
          shape = await shapeCosts(planGpu(), config),
          planned = await shape.prefill(ids.length),
          gates = 2 * config.hidden * config.experts!.layers.length; // of shared experts, which are f32, not of 16 bits
        expect(await prefilled(model, {})).toEqual([planned.dispatches, planned.bytes + gates]);
      }, 'qwen3_5_moe'),
    300_000,
  );

  nightly(
    'passes layers with a state space as planned',
    () =>
      onDevice(async (model) => {
        const planned = await (await shapeCosts(planGpu(), model.config)).prefill(ids.length);
        expect(await prefilled(model, {})).toEqual([planned.dispatches, planned.bytes]);
      }, 'granitemoehybrid'),
    300_000,
  );

  nightly(
    'passes layers that read the slots of others or take inputs of their own as planned',
    () =>
      onDevice(async (model) => {
        const shape = await shapeCosts(planGpu(), model.config),
          planned = await shape.prefill(ids.length);
        expect(await prefilled(model, {})).toEqual([planned.dispatches, planned.bytes]);
        const policy = policyOf('h2oCaote'),
          compiled = compile(policy),
          { score, select, compact } = (await predict(compiled, model.config, ids.length, BUDGET, 'f32')).device!,
          event = less(
            await prefilled(model, { policy, budget: BUDGET }),
            await prefilled(model, { policies: [policy] }),
          ),
          want = [score, select, compact].reduce(sum);
        expect(event).toEqual([want.dispatches, want.bytes]);
      }, 'gemma4'),
    300_000,
  );

  it(
    'adds running sums, and what views choose and hide, to a decoded token as planned',
    () =>
      onDevice(async (model) => {
        const step = (options: Parameters<Sequence['prefill']>[1]): Promise<Count> =>
          prefilled(model, options, async (sequence) => {
            for (const token of [1, 2]) await sequence.step(token);
            return counted(() => sequence.step(3));
          });
        const plain = await step({}),
          shape = await shapeCosts(planGpu(), model.config);
        for (const policy of [policyOf('h2o'), BY_KV_HEAD]) {
          const { dispatches, bytes } = (await shape.sums(compile(policy).needs, ids.length + 1)).waits;
          expect(less(await step({ policies: [policy] }), plain)).toEqual([dispatches, bytes]);
        }
        const token = async (policy: CompiledPolicy): Promise<Count> => {
          const { dispatches, bytes } = await shape.token(policy, ids.length + 1);
          return [dispatches, bytes];
        };
        for (const name of ['psaw(phi=0.1)', 'quest(page=4,slots=16)']) {
          const policy = parsePolicy(name);
          expect([name, ...less(await step({ policy }), plain)]).toEqual([
            name,
            ...less(await token(compile(policy)), await token(compile(id))),
          ]);
        }
      }),
    300_000,
  );
});

const LLAMA_1B = SHAPES['llama-3.2-1b'],
  LLAMA_8B = SHAPES['llama-3.1-8b'],
  SIZES = [
    [4096, 1024],
    [8192, 1024],
  ] as const;
/**
 * They read keys once, or not at all, and additionally few numbers for each query head; of 8,192 tokens two such reads
 * are few enough.
 */
const HELD = [
    'streaming',
    'streamingRerotated',
    'random',
    'knorm',
    'tova',
    'snapkv',
    'pyramidkv',
    'pyramidal',
    'finch',
    'scissorhands',
    'rarity',
    'taFast',
    'qfilter',
    'triattention',
  ],
  AT_8192 = ['chunkkv', 'keydiff', 'lagkv', 'cur'];

describe('at the shape of Llama-3.2-1B', () => {
  const all = new Map<number, readonly DeviceRow[]>();
  beforeAll(async () => {
    for (const [n, budget] of SIZES) all.set(n, await deviceRows(LLAMA_1B, n, budget));
  }, 300_000);
  it('score, select and compact of policies of a window or without attention take at most 1 % of the bytes, operations and time of prefill, if they read keys once at most, or twice with keys or values at 8,192 tokens', () => {
    for (const [n, names] of [
      [4096, HELD],
      [8192, [...HELD, ...AT_8192]],
    ] as const)
      for (const name of names) {
        const {
          kind,
          device: { shares },
        } = all.get(n)!.find((row) => row.name === name)!;
        expect(['window', 'no attention']).toContain(kind);
        expect(Math.max(shares.bytes, shares.operations, shares.time), `${name}, ${n} tokens`).toBeLessThanOrEqual(
          0.01,
        );
      }
  });
  it('running sums of one row a KV head move at most 4 % of the bytes of keys and values at d = 64, 2 % at 128; rows of query heads R times that', async () => {
    for (const [config, most] of [
      [LLAMA_1B, 0.04],
      [LLAMA_8B, 0.02],
    ] as const)
      for (const [n, budget] of SIZES) {
        for (const name of ['h2o', 'meanAttention']) {
          const heads = commonHeads(config);
          const predicted = (options?: { readonly rows: string }): Promise<Prediction> =>
            predict(compile(policyOf(name, options)), config, n, budget, 'f32');
          const [query, kv] = [await predicted(), await predicted({ rows: 'kv' })],
            sums = kv.device!.sums!,
            rows = query.device!.sums!;
          expect([rows.rows, sums.rows]).toEqual([config.queryHeads, heads.kvHeads]);
          expect(sums.waits).toBeLessThanOrEqual(most);
          expect(sums.waits).toBeCloseTo(1 / heads.headDim, 2);
          expect(rows.waits / sums.waits).toBeLessThanOrEqual(config.queryHeads / heads.kvHeads);
          expect(query.bytes.statistics / kv.bytes.statistics).toBe(config.queryHeads / heads.kvHeads);
        }
      }
  });
  it('bench/results/device-costs.md holds what kv explain all --markdown prints; KV_WRITE=1 puts it there', async () => {
    const path = fileURLToPath(new URL('../bench/results/device-costs.md', packages)),
      file = readFileSync(path, 'utf8');
    let wanted = file;
    const [[length, budget]] = SIZES,
      tables = SIZES.map(([n]) => [n, `${deviceTable(all.get(n)!, LLAMA_1B.layers)}\n`] as const),
      flags = ['--shape', 'llama-3.2-1b', '--length', `${length}`, '--budget', `${budget}`, '--markdown'];
    const { code, stdout } = await kv(['explain', 'all', ...flags]);
    expect([code, stdout]).toEqual([0, tables[0]![1]]);
    for (const [n, table] of tables)
      wanted = wanted.replace(
        new RegExp(`(## ${n.toLocaleString('en')} tokens, .*\\n\\n)[^#]*`),
        (_, head: string) => `${head}${table}\n`,
      );
    if (process.env['KV_WRITE'] === '1') writeFileSync(path, `${wanted.trimEnd()}\n`);
    else expect(file).toBe(`${wanted.trimEnd()}\n`);
  });
  it("a piece's own kernel states its operations: those of its loops", () => {
    const loops = (n: number, turns: number, each: number): number => {
      let sum = 0;
      // slots that are left
      for (let turn = 0; turn < turns; turn++) for (let slot = turn; slot < n; slot++) sum += each;
      return sum;
    };
    const [n, d] = [7, 4],
      row = { shape: [2, n] },
      budgets = { shape: [2, 1], data: [3, 9] },
      values = { shape: [2, n, d] };
    expect(
      greedyOrder.operations!(
        { scores: row, signatures: values, forced: row, banned: row, budgets, lambdas: { shape: [2, 1] } },
        {},
      ),
    ).toBe(loops(n, 3, 2 * d + 6) + loops(n, 7, 2 * d + 6));
    expect(
      evictionOrder.operations!(
        { weights: { shape: [6, n] }, outputs: { shape: [6, d] }, values, mask: row, budgets },
        {},
      ),
    ).toBe(3 * loops(n, 4, 5 * d + 5));
    const of = (name: string): number =>
      all.get(4096)!.find((each) => each.name === name)!.device.select.operations /
      (LLAMA_1B.layers * commonHeads(LLAMA_1B).kvHeads);
    expect(of('alpha') / loops(4096, 1024, 2 * 64 + 6)).toBeCloseTo(1, 2); // all else is small compared with it
    expect(of('h2oJoint') / (4 * loops(4096, 3072, 5 * 64 + 5))).toBeCloseTo(1, 2);
  });
});

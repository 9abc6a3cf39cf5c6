import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { compile } from '@kv/core/engine';
import type { Backend } from '@kv/core';
import type { Compiled } from '@kv/core/engine';
import { planOps } from '@kv/gpu';
import { loadModel, Sequence } from '@kv/models';
import type { Model, ModelConfig, Runtime } from '@kv/models';
import { parsePolicy, policy as policyOf, policyNames } from '@kv/policies';
import { greedyOrder } from '@kv/selectors-diversity';
import { evictionOrder } from '@kv/selectors-joint-eviction';
import { afterAll, describe, expect, it } from 'vitest';
import { moves, together } from '../src/explain/around-event.ts';
import { prefillTraffic } from '../src/explain/device-cost.ts';
import { deviceRows, deviceTable } from '../src/explain/device-table.ts';
import { predict } from '../src/explain/predict.ts';
import type { Prediction } from '../src/explain/predict.ts';
import { recordEvent } from '../src/explain/record-event.ts';
import { SHAPES } from '../src/explain/shapes.ts';
import { kv } from './terminal.ts';

const SWIFTSHADER = '/usr/lib/chromium/vk_swiftshader_icd.json'; // of Debian's package chromium
if (!process.env['VK_ICD_FILENAMES'] && existsSync(SWIFTSHADER)) process.env['VK_ICD_FILENAMES'] = SWIFTSHADER;
process.env['XDG_RUNTIME_DIR'] ??= tmpdir();
const packages = new URL('../../../packages/', import.meta.url);

const evicting = policyNames.map((name) => [name, compile(policyOf(name))] as const).filter(([, { evicts }]) => evicts);

/** The part of `@kv/gpu` that is used here, which this package does not install. */
interface Gpu extends Backend {
  readonly counters: { readonly dispatches: number; readonly bytes: number };
  open(): Backend & { end(): void };
  destroy(): void;
}

/** A device, or undefined where there is none; with KV_REQUIRE_GPU=1 that is a failure. */
async function device(): Promise<Gpu | undefined> {
  try {
    return await ((await import(new URL('gpu/src/index.ts', packages).href)) as { openGpu(): Promise<Gpu> }).openGpu();
  } catch (error) {
    if (process.env['KV_REQUIRE_GPU'] === '1') throw error;
    return undefined;
  }
}
const gpu = await device();
afterAll(() => gpu?.destroy(), 60_000);

describe.skipIf(!gpu)('the formula', () => {
  it("gives the dispatches and bytes that @kv/gpu counts, for every policy's event", () => {
    const small = {
        layers: 2,
        queryHeads: 4,
        kvHeads: 2,
        headDim: 8,
        hidden: 32,
        ffn: 64,
        vocab: 99,
        maxPositions: 131_072,
      } as ModelConfig,
      wrong: string[] = [];
    const counted = (policy: Compiled, slots: number, budget: number): readonly number[] => {
      const before = { ...gpu!.counters },
        scope = gpu!.open();
      recordEvent(policy, small, slots, budget, scope.ops);
      scope.end();
      return [gpu!.counters.dispatches - before.dispatches, gpu!.counters.bytes - before.bytes];
    };
    for (const [name, policy] of evicting)
      for (const slots of name === 'adakv' || name === 'fullTa' ? [96, 700] : [96]) {
        // beyond 512 slots sorts take more dispatches
        const { ops, cost } = planOps(),
          budget = Math.max(slots / 2, policy.floor(slots, slots / 2));
        recordEvent(policy, small, slots, budget, ops);
        const want = counted(policy, slots, budget);
        if (want[0] !== cost.dispatches || want[1] !== cost.bytes)
          wrong.push(
            `${name} at ${slots}: ${cost.dispatches} dispatches and ${cost.bytes} bytes, counted ${want.join(' and ')}`,
          );
      }
    expect(wrong).toEqual([]);
    expect(evicting.length).toBeGreaterThan(30);
  }, 300_000); // software adapters on a busy machine
});

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
  /** The fixture has biases in every product, which the formula's shapes have not. */
  const biases = ({ queryHeads: H, kvHeads: G, headDim: d, hidden: D, ffn: F, layers }: ModelConfig): Count => [
    0,
    4 * layers * ((H + 2 * G) * d + 2 * D + 2 * F),
  ];
  const ids = Array.from({ length: 48 }, (_, i) => (i * 37 + 11) % 64),
    BUDGET = 16;
  async function onDevice(run: (model: Model) => Promise<void>): Promise<void> {
    const { gpuRuntime } = (await import(new URL('gpu-models/src/index.ts', packages).href)) as {
      gpuRuntime(gpu: Gpu): Runtime;
    };
    const model = await loadModel(fileURLToPath(new URL('models/test/fixtures/llama', packages)), {
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
    'prefills, scores, selects and compacts with the dispatches and bytes of the formula',
    () =>
      onDevice(async (model) => {
        const { config } = model,
          plain = await prefilled(model, {}),
          n = ids.length;
        const { dispatches, bytes } = prefillTraffic(config, n),
          embedding = n + 1.5 * n * config.hidden; // its table is of 16 bits too
        expect(less(less(plain, [1, 4 * embedding]), biases(config))).toEqual([dispatches, bytes]);
        for (const name of [
          'streaming',
          'tova',
          'snapkv',
          'h2o',
          'h2o(rows=kv)',
          'sum(h2o,h2o(rows=kv)) ∘ topK',
          'chunkkv',
          'snapkvCaote',
          'criticalkv',
          'snapkvMerge',
          'finch(question=6) ∘ topK',
          'scissorhands',
          'cake',
        ]) {
          const policy = parsePolicy(name),
            compiled = compile(policy),
            budget = Math.max(BUDGET, compiled.floor(n, BUDGET)),
            { score, select, compact } = predict(compiled, config, n, budget).device,
            want = together(score, select, compact);
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
    'adds running sums to a decoded token by the formula',
    () =>
      onDevice(async (model) => {
        const { layers, queryHeads: H, kvHeads: G, headDim: d } = model.config,
          n = ids.length + 3;
        const step = (options: Parameters<Sequence['prefill']>[1]): Promise<Count> =>
          prefilled(model, options, async (sequence) => {
            for (const token of [1, 2]) await sequence.step(token);
            return counted(() => sequence.step(3));
          });
        const plain = await step({});
        for (const [policy, rows] of [
          [policyOf('h2o'), H],
          [BY_KV_HEAD, G],
        ] as const) {
          // so few slots are not split but for the query that is left: its part, and the join of it
          const { bytes } = moves(
            2 * rows * n + H * (d + 1) - 1 + 2 * H,
            H * (d + 2) + H * (d + 1) + H * d + H * (d + 1),
          );
          expect(less(await step({ policies: [policy] }), plain)).toEqual([layers, layers * bytes]);
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
 * They read keys once, or not at all, and few numbers for each query head beside; of 8,192 tokens two such reads are
 * few enough.
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
  const all = new Map(SIZES.map(([n, budget]) => [n, deviceRows(LLAMA_1B, n, budget)]));
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
  it('running sums of one row a KV head move at most 4 % of the bytes of keys and values at d = 64, 2 % at 128; rows of query heads R times that', () => {
    for (const [config, most] of [
      [LLAMA_1B, 0.04],
      [LLAMA_8B, 0.02],
    ] as const)
      for (const [n, budget] of SIZES) {
        for (const name of ['h2o', 'observed']) {
          const [query, kv] = [undefined, { rows: 'kv' }].map((options) =>
              predict(compile(policyOf(name, options)), config, n, budget),
            ) as [Prediction, Prediction],
            sums = kv.device.sums!;
          expect([query.device.sums!.rows, sums.rows]).toEqual([config.queryHeads, config.kvHeads]);
          expect(sums.waits).toBeLessThanOrEqual(most);
          expect(sums.waits).toBeCloseTo(1 / config.headDim, 2);
          expect(query.device.sums!.waits / sums.waits).toBeLessThanOrEqual(config.queryHeads / config.kvHeads);
          expect(query.bytes.statistics / kv.bytes.statistics).toBe(config.queryHeads / config.kvHeads);
        }
      }
  });
  it('bench/results/device-costs.md holds what kv explain all prints; KV_WRITE=1 puts it there', async () => {
    const path = fileURLToPath(new URL('../bench/results/device-costs.md', packages)),
      file = readFileSync(path, 'utf8');
    let wanted = file;
    for (const [n, budget] of SIZES) {
      const { code, stdout } = await kv([
        'explain',
        'all',
        '--shape',
        'llama-3.2-1b',
        '--length',
        `${n}`,
        '--budget',
        `${budget}`,
      ]);
      expect([code, stdout]).toEqual([0, `${deviceTable(all.get(n)!, LLAMA_1B.layers)}\n`]);
      wanted = wanted.replace(
        new RegExp(`(## ${n.toLocaleString('en')} tokens, .*\\n\\n)[^#]*`),
        (_, head: string) => `${head}${stdout}\n`,
      );
    }
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
      greedyOrder.operations!({ scores: row, signatures: values, forced: row, banned: row, budgets }, { lambda: 1 }),
    ).toBe(loops(n, 3, 2 * d + 6) + loops(n, 7, 2 * d + 6));
    expect(
      evictionOrder.operations!(
        { weights: { shape: [6, n] }, outputs: { shape: [6, d] }, values, mask: row, budgets },
        {},
      ),
    ).toBe(3 * loops(n, 4, 5 * d + 5));
    const of = (name: string): number =>
      all.get(4096)!.find((each) => each.name === name)!.device.select.operations /
      (LLAMA_1B.layers * LLAMA_1B.kvHeads);
    expect(of('alpha') / loops(4096, 1024, 2 * 64 + 6)).toBeCloseTo(1, 2); // all else is small beside it
    expect(of('h2oJoint') / (4 * loops(4096, 3072, 5 * 64 + 5))).toBeCloseTo(1, 2);
  });
});

import { existsSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { compile } from '@kv/core';
import type { Backend, Compiled } from '@kv/core';
import type { ModelConfig } from '@kv/models';
import { policies } from '@kv/policies';
import { afterAll, describe, expect, it } from 'vitest';
import { deviceOps } from '../src/explain/device-ops.ts';
import { predict } from '../src/explain/predict.ts';
import type { Prediction } from '../src/explain/predict.ts';
import { recordEvent } from '../src/explain/record-event.ts';

const SWIFTSHADER = '/usr/lib/chromium/vk_swiftshader_icd.json'; // of Debian's package chromium
if (!process.env['VK_ICD_FILENAMES'] && existsSync(SWIFTSHADER)) process.env['VK_ICD_FILENAMES'] = SWIFTSHADER;
process.env['XDG_RUNTIME_DIR'] ??= tmpdir();
const packages = new URL('../../../packages/', import.meta.url);

const shape = (layers: number, queryHeads: number, kvHeads: number, headDim: number, hidden: number, ffn: number, vocab: number): ModelConfig =>
  ({ layers, queryHeads, kvHeads, headDim, hidden, ffn, vocab, maxPositions: 131_072 }) as ModelConfig;
const evicting = Object.entries(policies).map(([name, { make }]) => [name, compile(make())] as const).filter(([, { evicts }]) => evicts);

/** The part of `@kv/gpu` that is used here, which this package does not install. */
interface Gpu extends Backend {
  readonly counters: { readonly dispatches: number; readonly bytes: number };
  open(): Backend & { end(): void };
  destroy(): void;
}

/** A device, or undefined where there is none; with KV_REQUIRE_GPU=1 that is a failure. */
async function device(): Promise<Gpu | undefined> {
  try {
    return await (await import(new URL('gpu/src/index.ts', packages).href) as { openGpu(): Promise<Gpu> }).openGpu();
  } catch (error) {
    if (process.env['KV_REQUIRE_GPU'] === '1') throw error;
    return undefined;
  }
}
const gpu = await device();
afterAll(() => gpu?.destroy(), 60_000);

describe.skipIf(!gpu)('the formula', () => {
  it("gives the dispatches and bytes that @kv/gpu counts, for every policy's event", () => {
    const small = shape(2, 4, 2, 8, 32, 64, 99), wrong: string[] = [];
    const counted = (policy: Compiled, slots: number, budget: number): readonly number[] => {
      const before = { ...gpu!.counters }, scope = gpu!.open();
      recordEvent(policy, small, slots, budget, scope.ops);
      scope.end();
      return [gpu!.counters.dispatches - before.dispatches, gpu!.counters.bytes - before.bytes];
    };
    for (const [name, policy] of evicting) for (const slots of name === 'adakv' || name === 'fullTa' ? [96, 700] : [96]) { // beyond 512 slots sorts take more dispatches
      const { ops, cost } = deviceOps(), budget = Math.max(slots / 2, policy.floor(slots, slots / 2));
      recordEvent(policy, small, slots, budget, ops);
      const want = counted(policy, slots, budget);
      if (want[0] !== cost.dispatches || want[1] !== cost.bytes) wrong.push(`${name} at ${slots}: ${cost.dispatches} dispatches and ${cost.bytes} bytes, counted ${want.join(' and ')}`);
    }
    expect(wrong).toEqual([]);
    expect(evicting.length).toBeGreaterThan(30);
  }, 300_000); // software adapters on a busy machine
});

const LLAMA_1B = shape(16, 32, 8, 64, 2048, 8192, 128_256), LLAMA_8B = shape(32, 32, 8, 128, 4096, 14_336, 128_256), TOKENS = 4096, BUDGET = 1024;
const percent = (x: number): string => `${(100 * x).toPrecision(2)} %`;
function row(name: string, { device: { score, select, compact, shares, sums } }: Prediction): string {
  const dispatches = score.dispatches + select.dispatches + compact.dispatches, bytes = score.bytes + select.bytes + compact.bytes;
  return `| ${name} | ${Math.round(dispatches / LLAMA_1B.layers)} | ${Math.round(bytes / 2 ** 20)} MiB, ${percent(shares.bytes)} | ${percent(shares.operations)} | ${percent(shares.time)} | ${sums ? `${percent(sums.bytes)} + ${percent(sums.scores)}` : ''} |`;
}

describe('at the shape of Llama-3.2-1B, 4,096 tokens, 1,024 slots', () => {
  const all = () => evicting.filter(([, policy]) => policy.floor(TOKENS, BUDGET) <= BUDGET).map(([name, policy]) => [name, policy, predict(policy, LLAMA_1B, TOKENS, BUDGET)] as const);
  it('policies of a window or without attention take at most 1 % of the operations and of the time of prefill, but for six', () => {
    // the others sum weights from prefill on, read the model again, or pick one slot after the other
    const cheap = all().filter(([, { needs }, { operations }]) => needs.every(({ cost, provide }) => cost !== 'pass' && !provide) && !Object.keys(operations).some((name) => /greedy/.test(name)));
    const over = cheap.filter(([, , { device: { shares } }]) => shares.operations > 0.01 || shares.time > 0.01).map(([name]) => name);
    expect(over.sort()).toEqual(['cake', 'compactor', 'dynamickv', 'expectedAttention', 'rkv', 'scissorhands']);
    expect(cheap.length).toBeGreaterThan(20);
  });
  it('running sums of one row a KV head move 1 / d of the bytes of keys and values, of query heads R times that', () => {
    for (const config of [LLAMA_1B, LLAMA_8B]) {
      const { sums } = predict(compile(policies['h2o']!.make()), config, TOKENS, BUDGET).device;
      expect(sums!.bytes).toBeCloseTo(sums!.rows / config.kvHeads / config.headDim, 12);
      expect(sums!.bytes * (config.kvHeads / sums!.rows)).toBeLessThanOrEqual(config.headDim === 64 ? 0.04 : 0.02);
    }
  });
  it('is the table of the README of @kv/gpu', () => {
    const rows = all().map(([name, , prediction]) => row(name, prediction)), readme = readFileSync(fileURLToPath(new URL('gpu/README.md', packages)), 'utf8');
    if (process.env['KV_PRINT'] === '1') console.log(rows.join('\n'));
    for (const line of rows) expect(readme, 'with KV_PRINT=1 this test prints the table').toContain(line);
  });
});

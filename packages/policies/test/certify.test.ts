import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { droppedMass, certificates } from '@kv/certificates';
import type { Certificates } from '@kv/certificates';
import { generate, loadModel } from '@kv/models';
import type { Model, WitnessedRow } from '@kv/models';
import { parsePolicy } from '../src/index.ts';

/** The llama golden: `KV_SHARED`, or `shared` beside the repository. */
const folder = `${process.env['KV_SHARED'] ?? fileURLToPath(new URL('../../../../shared', import.meta.url))}/data/goldens/llama`;
let model: Model, ids: number[];
beforeAll(async () => {
  if (!existsSync(folder)) throw new Error(`expected the shared fixtures at ${folder}: set KV_SHARED or put them beside the repository`);
  ids = (JSON.parse(readFileSync(`${folder}/golden.json`, 'utf8')) as { ids: number[] }).ids;
  model = await loadModel(folder);
});
/** A run with all that a witness is shown. */
async function watched(text: string, options: object) {
  const rows: WitnessedRow[] = [], all = certificates(), policy = parsePolicy(text);
  const { report } = await generate(model, { ids, policy, ...options, certify: { row: (row) => { rows.push(row); all.row(row); }, conclude: (run) => all.conclude(run) } });
  return { rows, report, found: report.certificates as Certificates };
}
const heads = (): number => model.config.queryHeads, group = (h: number): number => Math.floor((h * model.config.kvHeads) / heads());

describe('certificates in the report', () => {
  test('an eviction: every query head\'s newest weights over what was there, and what stays', async () => {
    const { rows, report, found } = await watched('snapkv(window=8)', { budget: 48, maxNewTokens: 0 });
    expect(rows).toHaveLength(model.config.layers * heads());
    for (const { layer, head, weights, positions, kept, query } of rows) {
      expect(weights.reduce((a, b) => a + b, 0)).toBeCloseTo(1, 4);
      expect([positions.length, query]).toEqual([ids.length, ids.length - 1]);
      expect(kept.map((i) => positions[i]!)).toEqual(report.kept[layer]![group(head)]!);
    }
    expect(found.events!.dropped.mean).toBeCloseTo(rows.reduce((s, r) => s + droppedMass(r.weights, r.kept), 0) / rows.length, 6);
    expect(found.events!.best.mean).toBeLessThan(found.events!.dropped.mean);
    expect(found.fading!.ages.length).toBeGreaterThan(3);
    expect(found.views).toBeUndefined();
  });
  test('the true top-k of one head drops exactly δ*, and overlaps the oracle fully', async () => {
    const { found, rows } = await watched('topKOracle(slots=32)', { maxNewTokens: 5 });
    expect(found.views!.rows).toBe(4 * model.config.layers * heads()); // the last token is not fed
    expect(found.views!.dropped.mean - found.views!.best.mean).toBeLessThan(2e-3); // the token itself is seen whatever its weight
    expect(found.views!.overlap.mean).toBeGreaterThan(0.96);
    expect(rows.every((r) => r.kept.includes(r.weights.length - 1))).toBe(true);
  });
  test('CIS reports its retrieval ratio, and PSAW a part that only depth hides', async () => {
    const cis = await watched('cpe(budget=64,sinks=2,local=8,block=4,phi=1,psi=1)', { maxNewTokens: 9 });
    expect(cis.found.retrievalRatio).toBeGreaterThanOrEqual(0.25);
    expect(cis.found.retrievalRatio).toBeLessThanOrEqual(1);
    const psaw = await watched('psaw(phi=0.2)', { maxNewTokens: 3 });
    const { byLayer } = psaw.found.views!;
    expect(byLayer[0]).toBe(0);
    expect(byLayer.at(-1)).toBeGreaterThan(0);
  });
  test('nothing is shown without being asked', async () => {
    expect((await generate(model, { ids, policy: parsePolicy('tova'), budget: 48, maxNewTokens: 1 })).report.certificates).toBeUndefined();
  });
});

describe('budgets by certified mass, in the engine', () => {
  test.each([0.3, 0.05])('no query head drops more than %d, without a budget, and a smaller ε costs more slots', async (epsilon) => {
    const { rows, report } = await watched(`tova ∘ mass(epsilon=${epsilon}) ∘ topK`, { maxNewTokens: 2 });
    const one = await watched(`observed ∘ mass(epsilon=${epsilon}) ∘ topK`, { maxNewTokens: 0, budget: '100%' });
    expect(rows).toHaveLength(model.config.layers * heads());
    expect(report.kept.flat().every((set, i) => set.length === report.budgets.flat()[i])).toBe(true);
    expect(Math.max(...report.kept.flat().map((s) => s.length))).toBeLessThan(ids.length);
    expect(one.report.counts['events']).toBe(1);
  });
  test('over each query head\'s own newest weights ε bounds what each of them drops, and the sizes differ by layer', async () => {
    const { rows, report, found } = await watched('exact ∘ mass(epsilon=0.1) ∘ topK', { maxNewTokens: 0 });
    for (const { weights, kept } of rows) expect(droppedMass(weights, kept)).toBeLessThanOrEqual(0.1 + 1e-4);
    expect(found.events!.dropped.max).toBeLessThanOrEqual(0.1 + 1e-4);
    expect(new Set(report.kept.flat().map((s) => s.length)).size).toBeGreaterThan(1);
    const larger = await watched('exact ∘ mass(epsilon=0.02) ∘ topK', { maxNewTokens: 0 }), total = (r: typeof report): number => r.kept.flat().reduce((s, k) => s + k.length, 0);
    expect(total(larger.report)).toBeGreaterThan(total(report));
  });
  test('while decoding in blocks and at a cadence, too', async () => {
    const { report } = await watched('exact ∘ mass(epsilon=0.1) ∘ topK', { block: 64, every: 3, maxNewTokens: 7 });
    expect(report.counts['events']).toBe(6); // four blocks, and after three and six tokens
  });
});

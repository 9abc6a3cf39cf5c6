import { fixture } from '@kv/model-testing/fixture';
import { beforeAll, describe, expect, test } from 'vitest';
import { certificates, droppedMass, fitConstants, sharingBound } from '@kv/certificates';
import type { Certificates, Constants } from '@kv/certificates';
import { generate, loadModel } from '../../src/index.ts';
import { watchLayers, commonHeads } from '@kv/engine';
import type { HostModel, ObservedRow } from '../../src/index.ts';
import { parsePolicy } from '@kv/policies';
import { llamaGolden } from './goldens.ts';

let model: HostModel, ids: number[];
beforeAll(async () => {
  ({ model, ids } = await llamaGolden());
});
/** Runs with an observer; returns everything that it was shown. */
async function watched(text: string, options: object, constants?: Constants) {
  const rows: (ObservedRow & { readonly ago: number | undefined })[] = [],
    all = certificates({ constants }),
    policy = parsePolicy(text);
  const { report, tokens } = await generate(model, {
    ids,
    policy,
    ...options,
    certify: {
      row: (row) => {
        rows.push({ ...row, ago: row.state('state.cis.ago') });
        all.row(row);
      },
      conclude: (run) => all.conclude(run),
    },
  });
  return { rows, report, tokens, found: report.certificates as Certificates };
}
const heads = (): number => model.config.queryHeads,
  group = (h: number): number => Math.floor((h * commonHeads(model.config).kvHeads) / heads());

describe('certificates in the report', () => {
  test("an eviction: every query head's newest weights over what was there, and what stays", async () => {
    const { rows, report, found } = await watched('snapkv(window=8)', { budget: 48, maxNewTokens: 0 });
    expect(rows).toHaveLength(model.config.layers * heads());
    for (const { layer, head, weights, positions, kept, query } of rows) {
      expect(weights.reduce((a, b) => a + b, 0)).toBeCloseTo(1, 4);
      expect([positions.length, query]).toEqual([ids.length, ids.length - 1]);
      expect(kept.map((i) => positions[i])).toEqual(report.kept[layer][group(head)]);
    }
    expect(found.events!.dropped.mean).toBeCloseTo(
      rows.reduce((s, r) => s + droppedMass(r.weights, r.kept), 0) / rows.length,
      6,
    );
    expect(found.events!.best.mean).toBeLessThan(found.events!.dropped.mean);
    expect(found.fading!.ages.length).toBeGreaterThan(3);
    expect(found.views).toBeUndefined();
  });
  test('the true top-k of one head drops exactly δ*, and overlaps the oracle fully', async () => {
    const { found, rows } = await watched('topKOracle(slots=32)', { maxNewTokens: 5 });
    expect(found.views!.rows).toBe(4 * model.config.layers * heads()); // the last token is not fed
    // a token sees itself whatever its weight
    expect(found.views!.dropped.mean - found.views!.best.mean).toBeLessThan(2e-3);
    expect(found.views!.overlap.mean).toBeGreaterThan(0.96);
    expect(rows.every((r) => r.kept.includes(r.weights.length - 1))).toBe(true);
  });
  test('CIS reports its retrieval ratio, and PSAW a part that only depth hides', async () => {
    const cis = await watched('cpe(budget=64,sinks=2,local=8,block=4,phi=1,psi=1)', { maxNewTokens: 9 });
    expect(cis.found.retrievalRatio).toBeGreaterThanOrEqual(0.25);
    expect(cis.found.retrievalRatio).toBeLessThanOrEqual(1);
    const byKeys = await watched('cpe(budget=64,sinks=2,local=8,block=4,compare=keys,phi=1,psi=1)', {
      maxNewTokens: 9,
    });
    expect(byKeys.found.retrievalRatio).toBeGreaterThanOrEqual(0.25);
    expect(byKeys.found.retrievalRatio).not.toBe(cis.found.retrievalRatio);
    const psaw = await watched('psaw(phi=0.2)', { maxNewTokens: 3 });
    const { byLayer } = psaw.found.views!;
    expect(byLayer[0]).toBe(0);
    expect(byLayer.at(-1)).toBeGreaterThan(0);
  });
  test.each(['any', 'retrievers'])(
    'CIS bounds what reuse costs by the distance of the very queries: among %s',
    async (among) => {
      const { rows, found } = await watched(
          `cpe(budget=64,sinks=2,local=8,block=4,threshold=0.2,among=${among},phi=1,psi=1)`,
          { maxNewTokens: 9 },
        ),
        reused = rows.filter(({ ago }) => ago! > 0);
      const bounds = reused.map(({ layer, head, step, ago, vector, keyNorm }) => {
        const own = rows.filter((r) => r.layer === layer && r.head === head && r.step < step),
          past = own.find((r) => r.step === step - ago!)!,
          alike = own
            .filter((r) => among === 'any' || r.ago === 0)
            .filter(({ vector: other }) => {
              const dot = vector.reduce((s, x, c) => s + x * other[c], 0);
              return dot / Math.hypot(...vector) / Math.hypot(...other) > 0.2;
            })
            .filter((r) => Math.floor(r.step / 4) === Math.floor(step / 4));
        expect(past.ago).toBe(0); // it retrieved
        expect(Math.floor(past.step / 4)).toBe(Math.floor(step / 4));
        const last = alike.at(-1)!; // the most recent one that is alike
        expect(last.step - last.ago!).toBe(past.step);
        return sharingBound({ keyNorm, dim: 16, distance: Math.hypot(...vector.map((x, c) => x - past.vector[c])) });
      });
      expect(reused.length).toBeGreaterThan(20);
      expect(found.reuse!.rows).toBe(reused.length);
      expect(found.retrievalRatio).toBeCloseTo(1 - reused.length / rows.length, 9);
      expect(found.reuse!.bound.mean).toBeCloseTo(bounds.reduce((x, y) => x + y, 0) / bounds.length, 9);
      expect(found.reuse!.beyond.mean).toBeGreaterThanOrEqual(0);
      const { drift } = found.reuse!;
      expect(drift!.rows).toBe(reused.length);
      expect(drift!.distance.max).toBeLessThanOrEqual(drift!.bound.max);
      expect(drift!.distance.mean).toBeGreaterThan(0);
    },
  );
  test('CIS by hidden states compares what the layers read of the tokens, as a calibration sees them', async () => {
    // everything stays visible, so that hidden states are those of the whole cache
    const threshold = 0.1,
      { rows, tokens } = await watched(
        `cpe(budget=402,sinks=2,local=400,block=4,compare=hidden,threshold=${threshold},phi=1,psi=1)`,
        { maxNewTokens: 12 },
      ),
      read: Float32Array[][] = [],
      { hidden } = model.config;
    await watchLayers(model, [...ids, ...tokens], {
      input: (layer, part) => {
        for (let i = 0; i < part.length; i += hidden) (read[layer] ??= []).push(part.slice(i, i + hidden));
      },
    });
    const cosine = (layer: number, a: number, b: number): number => {
      const [x, y] = [read[layer][a], read[layer][b]];
      return x.reduce((sum, one, c) => sum + one * y[c], 0) / Math.hypot(...x) / Math.hypot(...y);
    };
    const kinds = new Set<boolean>();
    for (const layer of new Set(rows.map((row) => row.layer)))
      for (const head of [0, heads() - 1]) {
        const own = rows.filter((row) => row.layer === layer && row.head === head),
          owner = new Map<number, number>();
        for (const { step, query, ago } of own) {
          const like = own
            .filter((row) => row.step < step && Math.floor(row.step / 4) === Math.floor(step / 4))
            .filter((row) => cosine(layer, query, row.query) > threshold)
            .at(-1);
          owner.set(step, like ? owner.get(like.step)! : step);
          expect(ago, `layer ${layer}, step ${step}`).toBe(step - owner.get(step)!);
          kinds.add(like !== undefined);
        }
      }
    expect(kinds.size).toBe(2); // some reuse and some retrieve
  });
  test('Double Sparsity as a surrogate: no row drops more than δ* + 2 ε and δ* + 2 η', async () => {
    const { rows, found } = await watched(
        'view(heavyChannelProducts(channels=6,window=1) ∘ mandatory(sinks=2,recent=4) ∘ topK,budget=48)',
        { maxNewTokens: 4 },
      ),
      { surrogate } = found;
    expect(surrogate!.rows).toBe(rows.length);
    expect(surrogate!.dropped.mean).toBeCloseTo(found.views!.dropped.mean, 9);
    expect(surrogate!.dropped.max).toBeLessThanOrEqual(surrogate!.byVariation.max);
    expect(surrogate!.byVariation.mean).toBeLessThanOrEqual(surrogate!.byLogits.mean + 1e-9);
    expect(rows.every(({ by, query }) => by!.forced.includes(0) && by!.forced.includes(query))).toBe(true);
    const exact = await watched('view(queryKeyProducts ∘ mandatory(sinks=2,recent=4) ∘ topK,budget=48)', {
      maxNewTokens: 3,
    });
    expect(exact.found.surrogate!.logitError.max).toBeLessThan(1e-3);
    expect(exact.found.surrogate!.variation.max).toBeLessThan(1e-4);
  });
  test('PSAW and ETF by constants that were fitted on a calibration run', async () => {
    const all = fitConstants({ ...model.config, ...commonHeads(model.config) }, { sinks: 4 });
    await watchLayers(model, ids, all);
    const constants = all.take(ids.length),
      { found, rows } = await watched('psaw(phi=0.2) ∘ etf(psi=0.2,reuse=kv)', { maxNewTokens: 3 }, constants),
      [layer, ...rest] = found.schedules!;
    expect(rest).toEqual([]); // of four layers only the top one
    expect(layer.layer).toBe(3);
    expect(layer.window!.dropped.mean).toBeCloseTo(found.views!.byLayer[3], 5);
    expect(layer.freezing!.positions).toBe(Math.floor(0.8 * ids.length) - 4);
    expect(layer.joint).toBe(Math.min(1, layer.window!.fitted.max + layer.freezing!.worst));
    expect(constants.fading.every((fit) => fit!.rate > 0 && fit!.error > 0)).toBe(true);
    expect(
      rows.every(({ window, layer: l, query }) =>
        l === 3 ? window!.sinks === 4 && window!.from === Math.floor(0.8 * query) : !window || window.from === 0,
      ),
    ).toBe(true);
    // what freezing changed in the top layer, whose input stays the same, is at most the bound of
    // its largest key change
    const [plain, frozen] = [
        await watched('psaw(phi=1)', { maxNewTokens: 2 }),
        await watched('psaw(phi=1) ∘ etf(psi=0.2,reuse=kv)', { maxNewTokens: 2 }),
      ],
      top = (r: typeof plain) => r.rows.filter((row) => row.layer === 3);
    const moved = top(plain).map(
      (row, i) => row.weights.reduce((s, w, j) => s + Math.abs(w - top(frozen)[i].weights[j]), 0) / 2,
    );
    expect(Math.max(...moved)).toBeGreaterThan(1e-3);
    expect(Math.max(...moved)).toBeLessThanOrEqual(layer.freezing!.covering + 1e-9);
    // where the layer projects frozen states itself none of them change, and the bound, which is on copied
    // keys, is not shown
    const projected = await watched('psaw(phi=0.2) ∘ etf(psi=0.2)', { maxNewTokens: 2 }, constants),
      alone = await watched('psaw(phi=0.2)', { maxNewTokens: 2 });
    expect(projected.found.schedules!.map(({ freezing }) => freezing)).toEqual([undefined]);
    expect(top(projected).map(({ weights }) => weights)).toEqual(top(alone).map(({ weights }) => weights));
  });
  test('nothing is shown without being asked', async () => {
    expect(
      (await generate(model, { ids, policy: parsePolicy('tova'), budget: 48, maxNewTokens: 1 })).report.certificates,
    ).toBeUndefined();
  });
});

describe('budgets by certified mass, in the engine', () => {
  test.each([0.3, 0.05])(
    'no query head drops more than %d, without a budget, and a smaller ε costs more slots',
    async (epsilon) => {
      const { rows, report } = await watched(`tova ∘ mass(epsilon=${epsilon}) ∘ topK`, { maxNewTokens: 2 });
      const one = await watched(`meanAttention ∘ mass(epsilon=${epsilon}) ∘ topK`, { maxNewTokens: 0, budget: '100%' });
      expect(rows).toHaveLength(model.config.layers * heads());
      expect(report.kept.flat().every((set, i) => set.length === report.budgets.flat()[i])).toBe(true);
      expect(Math.max(...report.kept.flat().map((s) => s.length))).toBeLessThan(ids.length);
      expect(one.report.counts['events']).toBe(1);
    },
  );
  test("over each query head's own newest weights ε bounds what each of them drops, and the sizes differ by layer", async () => {
    const { rows, report, found } = await watched('newestQueryAttention ∘ mass(epsilon=0.1) ∘ topK', {
      maxNewTokens: 0,
    });
    for (const { weights, kept } of rows) expect(droppedMass(weights, kept)).toBeLessThanOrEqual(0.1 + 1e-4);
    expect(found.events!.dropped.max).toBeLessThanOrEqual(0.1 + 1e-4);
    expect(new Set(report.kept.flat().map((s) => s.length)).size).toBeGreaterThan(1);
    const larger = await watched('newestQueryAttention ∘ mass(epsilon=0.02) ∘ topK', { maxNewTokens: 0 }),
      total = (r: typeof report): number => r.kept.flat().reduce((s, k) => s + k.length, 0);
    expect(total(larger.report)).toBeGreaterThan(total(report));
  });
  test('while decoding in blocks and at a cadence, too', async () => {
    const { report } = await watched('newestQueryAttention ∘ mass(epsilon=0.1) ∘ topK', {
      block: 64,
      every: 3,
      maxNewTokens: 7,
    });
    expect(report.counts['events']).toBe(6); // four blocks, and after three and six tokens
  });
});

describe('over layers with a window of 8 and a global one', () => {
  const open = (): Promise<HostModel> => loadModel(fixture('gemma3'));
  const prompt = Array.from({ length: 40 }, (_, i) => 3 + ((7 * i * i + 11 * i) % 61));
  const rowsOf = async (gemma: HostModel, text: string, options: object): Promise<readonly ObservedRow[]> => {
    const rows: ObservedRow[] = [];
    await generate(gemma, {
      ids: prompt,
      policy: parsePolicy(text),
      stopAtEos: false,
      ...options,
      certify: { row: (row) => rows.push(row), conclude: () => ({}) },
    });
    return rows;
  };

  test('an event is asked for the slots that a window sees, and drops none where the budget is the window', async () => {
    const gemma = await open(),
      { windows } = gemma.config.attention;
    const rows = await rowsOf(gemma, 'streaming(sinks=2)', { budget: 8, every: 3, maxNewTokens: 12 });
    expect(new Set(rows.map(({ layer }) => layer)).size).toBe(windows.length);
    for (const { layer, positions, query, weights, kept } of rows) {
      expect(query - positions[0]).toBeLessThan(windows[layer]);
      expect(weights.reduce((a, b) => a + b, 0)).toBeCloseTo(1, 4);
      if (windows[layer] < Infinity) expect(droppedMass(weights, kept)).toBeCloseTo(0, 6);
      else expect(droppedMass(weights, kept)).toBeGreaterThan(0.01);
    }
    gemma.destroy();
  });

  test('what a window has passed weighs nothing in the rows of views', async () => {
    const gemma = await open(),
      { windows } = gemma.config.attention;
    const rows = await rowsOf(gemma, 'psaw(phi=0.2)', { maxNewTokens: 12 });
    for (const { layer, positions, query, weights } of rows) {
      expect(weights.reduce((a, b) => a + b, 0)).toBeCloseTo(1, 4);
      // slots that the window has passed and that are not freed yet have no weight
      for (const [slot, p] of positions.entries()) if (query - p >= windows[layer]) expect(weights[slot]).toBe(0);
    }
    gemma.destroy();
  });
});

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compile, compose, cpu, emptyDraft, planBudgets, readCpu, runSteps, shaper, weigher } from '@kv/core';
import type { AnySignal, EventLayer, Piece } from '@kv/core';
import { each, kernelLaws, scene, sceneSpecs, scoreAllocatorLaws, scorerLaws } from '@kv/laws';
import type { Scene } from '@kv/laws';
import { cake, cakeScores, dynamickv, shareOut } from '../src/index.ts';
import { bestOracle, preferenceOracle, shareOracle } from './preference.oracle.ts';

// slots move between layers: the sum of one layer does not stay
describe.each([cake({ window: 2 }), cake({ window: 3, tau1: 0.5, tau2: 2 }), dynamickv({ window: 1 })].map((piece) => [piece.label, piece] as const))('%s', (_, piece) => {
  const { total: __, ...laws } = scoreAllocatorLaws(piece, { runs: 30 });
  each(laws, test);
});
describe('cakeScores', () => { each(scorerLaws(cakeScores({ window: 3, gamma: 5, kernel: 3 }), { runs: 30 }), test); });
describe('share-out', () => { each(kernelLaws(shareOut, { runs: 20, make: ({ slots, seed }) => { const n = Math.max(1, slots), of = (f: (i: number) => number) => ({ data: Float32Array.from({ length: n }, (_, i) => f(i)), shape: [1, n] }); return { inputs: { weights: of((i) => (i * 7 + seed) % 5), floors: of(() => 1), caps: of((i) => 2 + (i % 4)), total: { data: Float32Array.of(2 * n), shape: [1, 1] } } }; } }), test); });

test('share-out agrees with one unit at a time', () => {
  const layer = fc.record({ w: fc.integer({ min: 0, max: 8 }), floor: fc.nat(3), cap: fc.nat(9) });
  fc.assert(fc.property(fc.array(layer, { minLength: 1, maxLength: 6 }), fc.nat(40), (layers, total) => {
    const put = (of: (l: (typeof layers)[number]) => number) => cpu.ops.from({ data: Float32Array.from(layers, of), shape: [1, layers.length] });
    const got = readCpu(cpu.ops.kernel(shareOut, { weights: put((l) => l.w), floors: put((l) => l.floor), caps: put((l) => l.cap), total: cpu.ops.from({ data: [total], shape: [1, 1] }, 'f32') })).data;
    expect(Array.from(got)).toEqual(shareOracle(layers.map((l) => l.w), total, layers.map((l) => l.floor), layers.map((l) => l.cap)));
  }), { numRuns: 200 });
});

/** Queries of a layer, made up. */
const seen = (layer: number, count: number): Float32Array => Float32Array.from({ length: count }, (_, i) => Math.sin(i * 1.9 + layer));
/** Budgets that a policy leaves in each layer of an aligned scene. */
function budgets(piece: Piece, { layers }: Scene): number[][] {
  const { ops } = cpu, events = layers.map(({ at, keys, positions }): EventLayer => ({ at, budgets: new Array<number>(at.kvHeads).fill(Math.min(at.slots, at.budget)), read: (s: AnySignal) => {
    if (s.id === 'positions') return ops.from({ data: positions, shape: [at.kvHeads, at.slots] });
    if (s.id === 'keys') return ops.from({ data: keys, shape: [at.kvHeads, at.slots, at.headDim] });
    const w = Number(s.args?.['w']);
    return ops.from({ data: seen(at.layer, at.queryHeads * w * at.headDim), shape: [at.queryHeads, w, at.headDim] });
  } }));
  return runSteps(compile(piece).steps, events, ops, events.map((e) => emptyDraft(e, ops))).map((d) => Array.from(readCpu(d.budgets).data));
}

test('layers that give all heads alike spend every slot also where earlier events left heads and layers unequal', () => {
  fc.assert(fc.property(sceneSpecs({ layers: 3 }), fc.constantFrom(cake({ window: 2 }), dynamickv({ window: 2, most: 100 })), (spec, piece) => {
    const on = scene(spec), lengths = on.layers.map((l) => l.lengths), policy = compile(piece), plan = planBudgets(policy, spec.budget, lengths), { ops } = cpu;
    const layers = on.layers.map(({ at, keys, positions, lengths: n }, l): EventLayer => {
      const counts = at.aligned ? undefined : ops.from({ data: Uint32Array.from(n), shape: [at.kvHeads] }, 'u32');
      return { at, budgets: plan.budgets[l]!, read: (s: AnySignal) => (s.id === 'positions' ? ops.from({ data: positions, shape: [at.kvHeads, at.slots] }, 'u32', counts) : s.id === 'keys' ? ops.from({ data: keys, shape: [at.kvHeads, at.slots, at.headDim] }, 'f32', counts)
        : ops.from({ data: seen(l, at.queryHeads * 2 * at.headDim), shape: [at.queryHeads, 2, at.headDim] })) };
    });
    const drafts = layers.map((layer, l) => ({ ...emptyDraft(layer, ops), scores: ops.from({ data: on.layers[l]!.attention, shape: [layer.at.queryHeads, layer.at.slots] }, 'f32', layer.at.aligned ? undefined : ops.from({ data: Uint32Array.from({ length: layer.at.queryHeads }, (_, h) => on.layers[l]!.lengths[Math.floor((h * layer.at.kvHeads) / layer.at.queryHeads)]!), shape: [layer.at.queryHeads] }, 'u32')) }));
    const got = runSteps(policy.steps, layers, ops, drafts).map((d) => Array.from(readCpu(d.budgets).data)), all = lengths.flat().reduce((a, b) => a + b, 0);
    got.forEach((heads, l) => heads.forEach((b, g) => { expect(Number.isInteger(b)).toBe(true); expect(b).toBeLessThanOrEqual(lengths[l]![g]!); }));
    expect(got.flat().reduce((a, b) => a + b, 0)).toBe(Math.min(spec.budget * lengths.flat().length, all));
  }), { numRuns: 80 });
});

test('CAKE shares by entropy and variance of the window, from causal softmax rows', () => {
  const window = 3;
  fc.assert(fc.property(sceneSpecs({ ragged: false, layers: 3 }).filter((s) => s.evicted === 0 && s.vectors !== 'long'), (spec) => {
    const on = scene({ ...spec, budget: spec.slots - 1 });
    const want = on.layers.map(({ at, keys, positions }, l) => {
      const { queryHeads: H, headDim: d } = at, w = window, data = seen(l, H * w * d);
      return preferenceOracle(Array.from({ length: H }, (_, h) => Array.from({ length: w }, (_, q) => {
        const g = Math.floor((h * at.kvHeads) / H), see = Array.from({ length: at.slots }, (_, i) => positions[g * at.slots + i]! <= at.length - w + q);
        const logits = see.map((yes, i) => { if (!yes) return -Infinity; let s = 0; for (let c = 0; c < d; c++) s += data[(h * w + q) * d + c]! * keys[(g * at.slots + i) * d + c]!; return s / Math.sqrt(d); });
        if (!see.some(Boolean)) return new Array<number>(Math.max(0, at.slots - window)).fill(1 / at.slots);
        const e = logits.map((x) => Math.exp(x - Math.max(...logits))), sum = e.reduce((a, b) => a + b);
        return e.slice(0, Math.max(0, at.slots - window)).map((x) => x / sum);
      })), 1, 1);
    });
    const { slots } = on.spec, total = on.layers.length * Math.max(0, Math.min(slots, slots - 1)), exact = shareOracle(want, total, want.map(() => Math.min(window, slots)), want.map(() => slots));
    // rounding down in f32 may move single slots
    budgets(compose(weigher('any', [], ({ ops, at }) => ops.from({ data: new Float32Array(at.slots), shape: [1, at.slots] })), cake({ window })), on).forEach((heads, l) => heads.forEach((b) => expect(Math.abs(b - exact[l]!)).toBeLessThanOrEqual(1)));
  }), { numRuns: 40 });
});

test('DynamicKV counts the best scores of the whole model, and keeps the sum', () => {
  fc.assert(fc.property(fc.array(fc.array(fc.integer({ min: 0, max: 1000 }).map((x) => x / 16), { minLength: 8, maxLength: 8 }), { minLength: 2, maxLength: 4 }), fc.integer({ min: 1, max: 7 }), (rows, budget) => {
    const on = scene({ layers: rows.length, kvHeads: 1, group: 1, slots: 8, dim: 1, ragged: false, evicted: 0, budget, weights: 'spread', vectors: 'spread', seed: 1 });
    const given = weigher('given', [], ({ ops, at }) => ops.from({ data: Float32Array.from(rows[at.layer]!), shape: [1, 8] }));
    const got = budgets(compose(given, shaper('last', [], ({ ops, scores }) => ({ scores, forced: ops.lastSlots(scores, 1) })), dynamickv({ window: 1, most: 100 })), on).flat();
    const want = bestOracle(rows.map((r) => r.slice(0, 7)), rows.length * (budget - 1));
    expect(got.reduce((a, b) => a + b)).toBe(budget * rows.length);
    if (budget > 1) expect(got).toEqual(shareOracle(want, budget * rows.length, rows.map(() => 1), rows.map(() => 8)));
  }), { numRuns: 60 });
});

describe('options are checked', () => {
  test.each([['window', () => cake({ window: 0 })], ['tau1', () => cake({ tau1: 0 })], ['tau2', () => cake({ tau2: -1 })], ['gamma', () => cakeScores({ gamma: -1 })], ['kernel', () => cakeScores({ kernel: 2 })], ['most', () => dynamickv({ most: 0 })], ['window', () => dynamickv({ window: -1 })]])('%s', (option, make) => { expect(make).toThrow(new RegExp(`^\\w+: ${option} must be `)); });
});

describe('scores on query rows, a window above the budget', () => {
  const at = { layers: 2, queryHeads: 4, kvHeads: 2, headDim: 1, step: 0, promptLength: 6, length: 6, slots: 6, aligned: true, budget: 2, selectRows: 2 };
  const layers = [0, 1].map((layer) => ({ at: { ...at, layer }, budgets: [2, 2], read: () => undefined }));
  const drafts = layers.map((layer, l) => ({ ...emptyDraft(layer, cpu.ops), scores: cpu.ops.from({ data: Float32Array.from({ length: 24 }, (_, i) => ((i * 7 + l) % 5) + l), shape: [4, 6] }) }));
  test('budgets stay one a KV head and within the total', () => {
    const budgets = runSteps(compile(dynamickv({ window: 4 })).steps, layers, cpu.ops, drafts).map((d) => readCpu(d.budgets));
    expect(budgets.map(({ shape }) => shape)).toEqual([[2, 1], [2, 1]]);
    expect(budgets.flatMap(({ data }) => Array.from(data)).reduce((a, b) => a + b)).toBe(8);
  });
});

import ndarray from 'ndarray';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  allocator,
  attentionAccumulated,
  attentionLast,
  attentionWindow,
  compose,
  hide,
  keys,
  mandatory,
  onStep,
  positions,
  scorer,
  selector,
  state,
  sum,
  tokens,
  transform,
  values,
  weightScorer,
} from '@kv/core';
import { advance, retain } from '@kv/cpu';
import type { HostArray, Policy, RetainState } from '@kv/core';
import { NaiveHost } from './naive-host.ts';
import { keptByWindow } from './retain.oracle.ts';

const topK = selector('topK', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks));
const window = (w: number) =>
  weightScorer('window', { needs: [attentionWindow(w)] }, ({ ops, attention }) => ({
    scores: attention,
    forced: ops.lastSlots(attention, w),
  }))();
const last = weightScorer('last', { needs: [attentionLast] }, ({ attention }) => attention)();
const fixed = (n: number, seed: number): Float32Array =>
  Float32Array.from({ length: n }, (_, i) => Math.sin(seed + i * 1.7) * 2);
const array = (shape: readonly number[], seed: number): HostArray => ({
  data: fixed(
    shape.reduce((a, b) => a * b, 1),
    seed,
  ),
  shape,
});
const cacheOf = (layers: number, H: number, G: number, n: number, d: number, w: number) => ({
  queryHeads: H,
  layers: Array.from({ length: layers }, (_, l) => ({
    keys: array([G, n, d], l * 3 + 1),
    values: array([G, n, d], l * 3 + 2),
    queries: array([H, w, d], l * 3 + 3),
  })),
});

describe('retain', () => {
  test('window attention of queries and keys keeps what float64 loops keep, in every layer and head', () =>
    fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 3 }),
        fc.integer({ min: 1, max: 3 }),
        fc.integer({ min: 4, max: 24 }),
        fc.integer({ min: 1, max: 6 }),
        async (G, group, n, w) => {
          const cache = cacheOf(2, G * group, G, n, 4, w);
          const budget = Math.max(w, Math.ceil(n / 2));
          const { slots } = await retain(compose(window(w), topK()), cache, { budget });
          expect(slots.map((heads) => heads.map((s) => [...s]))).toEqual(
            cache.layers.map((layer) => keptByWindow(layer, w, budget)),
          );
        },
      ),
      { numRuns: 40 },
    ));
  test('ndarrays, also transposed ones, are as good as rows', async () => {
    const { layers, ...rest } = cacheOf(1, 2, 1, 6, 2, 3);
    const turned = layers.map(({ keys: k, values: v, queries: q }) => ({
      values: v,
      queries: q,
      keys: ndarray(
        Float32Array.from({ length: 12 }, (_, i) => k.data[(i % 6) * 2 + Math.floor(i / 6)]),
        [1, 2, 6],
      ).transpose(0, 2, 1),
    }));
    const policy = compose(window(2), topK());
    expect((await retain(policy, { ...rest, layers: turned }, { budget: 3 })).slots).toEqual(
      (await retain(policy, { ...rest, layers }, { budget: 3 })).slots,
    );
  });
  test('compacts plain arrays of any rank, and gives the positions of what stays', async () => {
    const first = scorer('first', { needs: [positions] }, ({ ops, positions: p }) => ops.sub(0, p))();
    const at = { data: Uint32Array.of(3, 5, 9, 2, 4, 8), shape: [2, 3] };
    const kept = await retain(compose(first, topK()), { queryHeads: 2, layers: [{ positions: at }] }, { budget: 2 });
    expect(kept.positions[0].map((p) => [...p])).toEqual([
      [3, 5],
      [2, 4],
    ]);
    expect(kept.compact(0, { data: Float32Array.from({ length: 12 }, (_, i) => i), shape: [2, 3, 2] })).toEqual({
      data: Float32Array.of(0, 1, 2, 3, 6, 7, 8, 9),
      shape: [2, 2, 2],
      lengths: [2, 2],
    });
    expect(kept.compact(0, at).data).toEqual(Uint32Array.of(3, 5, 2, 4));
  });
  test('budgets are planned over all layers, and read scores in each', async () => {
    const falling = allocator('falling', {}, (plan) => ({
      ...plan,
      budgets: plan.budgets.map((heads, l) => heads.map((b) => b + 1 - 2 * l)),
      notes: ['by hand'],
    }))();
    const kept = await retain(compose(last, falling, topK()), cacheOf(2, 2, 2, 8, 2, 1), { budget: '50%' });
    expect(kept.budgets).toEqual([
      [5, 5],
      [3, 3],
    ]);
    expect(kept.notes).toEqual(['by hand']);
    expect(kept.slots.map((heads) => heads.map((s) => s.length))).toEqual([
      [5, 5],
      [3, 3],
    ]);
  });
  test('heads that are to be alike keep one set, by the mean of all', async () => {
    const made = await retain(compose(last, topK()), cacheOf(2, 4, 2, 9, 3, 1), { budget: 4, heads: 'alike' });
    for (const [a, b] of made.slots) expect(a).toEqual(b);
    expect(made.budgets).toEqual([
      [4, 4],
      [4, 4],
    ]);
  });
  test('pieces that read text run on tokens and positions alone', async () => {
    const vowels = scorer('vowels', { needs: [tokens, positions] }, ({ ops, tokens: t, positions: p }) =>
      ops.take(
        ops.from({ data: t.ids.map((id) => Number('aeiou'.includes(t.text[id]))), shape: [1, t.ids.length] }),
        p,
      ),
    )();
    const text = 'banana';
    const kept = await retain(
      compose(vowels, topK()),
      {
        queryHeads: 1,
        tokens: { text, ids: [0, 1, 2, 3, 4, 5], offsets: [...text].map((_, i) => [i, i + 1] as const) },
        layers: [{ positions: { data: Uint32Array.of(0, 1, 2, 3, 4, 5), shape: [1, 6] } }],
      },
      { budget: 3 },
    );
    expect([...kept.slots[0][0]]).toEqual([1, 3, 5]);
  });
  test('state of slots follows its slots from event to event, and steps decay it', async () => {
    const age = state('age', { kind: 'slot', rows: 'kv', init: 1 });
    const grow = onStep('grow', { needs: [age] }, ({ ops, age: a }) => ({ age: ops.add(a, 1) }));
    const old = scorer('old', { needs: [age], hooks: () => [grow()] }, ({ ops, age: a }) => ({
      scores: a,
      state: { age: ops.mul(a, 10) },
    }))();
    const policy = compose(old, topK());
    const at = (n: number, from = 0) => ({
      queryHeads: 1,
      layers: [{ positions: { data: Uint32Array.from({ length: n }, (_, i) => i + from), shape: [1, n] } }],
    });
    const one = await retain(policy, at(3), { budget: 2 });
    expect([...one.state.values()].map(({ data }) => [...(data as Float32Array)])).toEqual([[10, 10]]);
    const stepped = await advance(policy, { ...at(3), state: one.state });
    expect([...stepped.values()].map(({ data }) => [...(data as Float32Array)])).toEqual([[11, 11, 2]]);
    const two = await retain(policy, { ...at(3), state: stepped }, { budget: 2 });
    expect([...two.slots[0][0]]).toEqual([0, 1]);
  });
  test('state stays with its slot and head however many tokens are appended between events and steps', () => {
    const age = state('age', { kind: 'slot', rows: 'kv', init: 1 }),
      grow = onStep('grow', { needs: [age, positions] }, ({ ops, age: a, positions: p }) => ({
        age: ops.add(ops.mul(a, 2), p),
      })),
      size = scorer('size', { needs: [age, values], hooks: () => [grow()] }, ({ ops, values: v }) => ops.norm(v))();
    return fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 3 }),
        fc.integer({ min: 1, max: 4 }),
        fc.array(fc.record({ more: fc.nat(4), steps: fc.nat(2) }), { minLength: 1, maxLength: 5 }),
        async (heads, budget, turns) => {
          let held = Array.from({ length: heads }, (_, g) => [g, g + 4, g + 9].map((at) => ({ at, age: 1 }))),
            now = 20,
            known: RetainState | undefined;
          const policy = compose(size, topK());
          for (const { more, steps } of turns) {
            held = held.map((row) => [...row, ...Array.from({ length: more }, (_, i) => ({ at: now + i, age: 1 }))]);
            now += more;
            const shape = [heads, held[0].length],
              at = held.flatMap((row) => row.map((one) => one.at)),
              v = held.flatMap((row, g) => row.map((one) => Math.sin(5 * g + 1.7 * one.at))),
              cache = {
                queryHeads: heads,
                layers: [{ positions: { data: at, shape }, values: { data: v, shape: [...shape, 1] } }],
              };
            for (let i = 0; i < steps; i++) {
              known = await advance(policy, { ...cache, ...(known && { state: known }) });
              for (const one of held.flat()) one.age = 2 * one.age + one.at;
            }
            const { slots, state: after } = await retain(
              policy,
              { ...cache, ...(known && { state: known }) },
              { budget },
            );
            held = held.map((row, g) => Array.from(slots[0][g], (slot) => row[slot]));
            known = after;
            for (const { data } of after.values())
              expect(Array.from(data)).toEqual(held.flatMap((row) => row.map((one) => one.age)));
          }
        },
      ),
      { numRuns: 60 },
    );
  });
  test('what an engine knows by itself goes by the key of its signal', async () => {
    const sums = weightScorer('sums', { needs: [attentionAccumulated] }, ({ attention }) => attention)();
    const layer = {
      values: array([1, 3, 2], 1),
      signals: { 'attention.accumulated': { data: [1, 3, 2, 1, 3, 2], shape: [2, 3] } },
    };
    expect([
      ...(await retain(compose(sums, topK()), { queryHeads: 2, layers: [layer] }, { budget: 2 })).slots[0][0],
    ]).toEqual([1, 2]);
  });
  test('a naive engine of its own evicts while it reads, keeps its budget and its newest', async () => {
    const policy = compose(
      window(2),
      transform('spread', { needs: [values] }, ({ ops, scores, values: v }) => ops.mul(scores, ops.norm(v)))(),
      mandatory({ sinks: 1 }),
      topK(),
    );
    const host = new NaiveHost({ layers: 2, queryHeads: 4, kvHeads: 2, dim: 4 }, policy);
    for (let turn = 0; turn < 4; turn++) {
      for (let i = 0; i < 5; i++) host.feed(turn * 5 + i);
      const { positions: p } = await host.evict(6);
      for (const heads of p)
        for (const row of heads) {
          expect(row).toHaveLength(Math.min(6, host.length));
          expect([row[0], row.at(-1), row.at(-2)]).toEqual([0, host.length - 1, host.length - 2]);
          expect([...row]).toEqual([...row].sort((a, b) => a - b));
        }
      await host.step();
    }
  });
});

describe('what a cache lacks is said before anything runs', () => {
  const wanting = (
    policy: Policy,
    cache: Parameters<typeof retain>[1],
    sentence: string,
    budget: Parameters<typeof retain>[2]['budget'] = 2,
  ) => expect(retain(policy, cache, { budget })).rejects.toThrow(sentence);
  const { layers, queryHeads } = cacheOf(2, 2, 1, 4, 2, 2);
  const policy = compose(window(2), topK());
  test('queries', () =>
    wanting(
      policy,
      { queryHeads, layers: layers.map(({ keys: k }) => ({ keys: k })) },
      "layers[0]: expected queries and keys, which 'window ∘ topK' reads, got none",
    ));
  test('keys', () =>
    wanting(
      compose(scorer('k', { needs: [keys] }, ({ ops, keys: k }) => ops.norm(k))(), topK()),
      { queryHeads, layers: layers.map(({ values: v }) => ({ values: v })) },
      "layers[0]: expected keys, which 'k ∘ topK' reads, got none",
    ));
  test('a statistic', () =>
    wanting(
      compose(weightScorer('h', { needs: [attentionAccumulated] }, ({ attention }) => attention)(), topK()),
      { queryHeads, layers },
      "layers[0]: expected signals['attention.accumulated'], which 'h ∘ topK' reads, got none",
    ));
  test('layers', () => wanting(policy, { queryHeads, layers: [] }, 'layers: expected at least one layer, got none'));
  test('heads that fit', () =>
    wanting(
      policy,
      { queryHeads: 3, layers: cacheOf(1, 2, 2, 4, 2, 2).layers },
      'queryHeads: expected a multiple of the 2 KV heads, got 3',
    ));
  test('arrays that belong together', () =>
    wanting(
      policy,
      { queryHeads, layers: [{ ...layers[0], values: array([1, 5, 2], 1) }] },
      "layers[0].values: expected [1, 4, ...] as the layer's other arrays, got [1, 5, 2]",
    ));
  test('a budget', () =>
    wanting(
      policy,
      { queryHeads, layers },
      "budget: must be a whole number of slots of at least 1, a share above 0% and up to 100% such as '25%'",
      '0%',
    ));
  test('a budget in slots, since no model says how many bytes one is', () =>
    wanting(
      policy,
      { queryHeads, layers },
      "budget: '64MiB' needs a model's cache, whose slots have a size: here expected slots, or a share such as '25%'",
      '64MiB',
    ));
  test('room for what is forced', () =>
    wanting(
      compose(window(3), topK()),
      { queryHeads, layers: cacheOf(1, 2, 1, 4, 2, 3).layers },
      'budget: layer 0, head 0: 3 slots are forced, but the budget is 2',
    ));
  test('a selector', () =>
    wanting(sum(last) as unknown as Policy, { queryHeads, layers }, "retain: 'sum(last)' leaves no kept slots"));
  test('no engine that asks at every token', () =>
    wanting(
      compose(policy, hide('half', { during: 'decode' }, () => ({ sinks: 1, lower: (t) => t / 2 }))()),
      { queryHeads, layers },
      "retain: 'half' acts outside events",
    ));
});

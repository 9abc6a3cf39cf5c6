import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { h2o, snapkv, streaming } from '@kv/scorers-attention';
import { knorm } from '@kv/scorers-knorm';
import { topK } from '@kv/selectors-top-k';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { rotator, attend, LayerCache, Ledger } from '@kv/engine';
import { decode, loadModel, Sequence } from '../src/index.ts';
import type { Model } from '../src/index.ts';
import { best, cut, oracle64, scores64 } from './llama.oracle.ts';
import { relative } from '@kv/engine-testing/run';
import { reference, referenceJson } from '@kv/model-testing/reference';
import { weights64 } from './weights64.ts';

const [G, d, rotary] = [2, 8, 6];
/** Frequencies as a scaling may leave them: no powers of a base, with an attention factor. */
const FREQUENCIES = [1, 0.31, 0.0123],
  FACTOR = 1.19;
const angles = (positions: Uint32Array) => {
  const table = (of: (x: number) => number): Float32Array =>
    Float32Array.from([...positions].flatMap((p) => FREQUENCIES.map((f) => FACTOR * of(p * f))));
  return { rotary, cos: table(Math.cos), sin: table(Math.sin) };
};
/** Rotates a head vector in float64. */
const turn64 = (x: readonly number[], p: number): number[] =>
  x.map((v, i) => {
    if (i >= rotary) return v;
    const half = rotary / 2,
      a = p * FREQUENCIES[i % half];
    return FACTOR * (v * Math.cos(a) + (i < half ? -x[i + half] : x[i - half]) * Math.sin(a));
  });
const wave = (seed: number): number[] => Array.from({ length: d }, (_, i) => Math.sin(seed * 12.9898 + i * 78.233) * 2);

interface Slot {
  readonly plain: readonly number[];
  readonly value: readonly number[];
  rotation: number;
}

describe('a rebased cache', () => {
  test('attends as if its keys had been turned by the new positions from the start, through appends, evictions and forks', () => {
    const step = fc.oneof(
      fc.record({ append: fc.integer({ min: 1, max: 5 }) }),
      fc.record({ keep: fc.double({ min: 0.2, max: 0.9, noNaN: true }) }),
      fc.constant('rebase' as const),
      fc.constant('fork' as const),
    );
    fc.assert(
      fc.property(fc.array(step, { minLength: 2, maxLength: 12 }), (steps) => {
        const heads: Slot[][] = [[], []],
          ledger = new Ledger();
        let cache = new LayerCache(G, d, ledger),
          position = 0,
          next = 0,
          seed = 0;
        for (const now of [{ append: 3 }, ...steps]) {
          if (now === 'fork') {
            const copy = cache.fork();
            cache.destroy();
            cache = copy;
          } else if (now === 'rebase') {
            next = Math.max(...heads.map((h) => h.length));
            const from = [...(cache.rotations ?? cache.positions), ...Array(next + 1).keys()];
            cache.rebase(next, rotator(angles, from));
            for (const head of heads)
              head.forEach((slot, i) => {
                slot.rotation = next - head.length + i;
              });
          } else if ('append' in now) {
            const m = now.append,
              k = new Float32Array(G * m * d),
              v = new Float32Array(G * m * d);
            for (let g = 0; g < G; g++)
              for (let i = 0; i < m; i++) {
                const slot = { plain: wave(++seed), value: wave(seed + 0.5), rotation: next + i };
                heads[g].push(slot);
                k.set(turn64(slot.plain, slot.rotation), (g * m + i) * d);
                v.set(slot.value, (g * m + i) * d);
              }
            cache.append(
              k,
              v,
              Uint32Array.from({ length: m }, (_, i) => position + i),
              position - next,
            );
            [position, next] = [position + m, next + m];
          } else {
            const kept = heads.map((head, g) =>
              Uint32Array.from(head.keys()).filter((i) => i === head.length - 1 || ((i + g) * 0.618034) % 1 < now.keep),
            );
            cache.keep(kept);
            kept.forEach((list, g) => {
              heads[g] = [...list].map((i) => heads[g][i]);
            });
          }
          expect(ledger.live).toBe(4 * (2 * d + (cache.rotations ? 2 : 1)) * heads.flat().length);
        }
        const q = wave(99),
          out = attend({
            q: Float32Array.from([q, q].flatMap((x) => turn64(x, next))),
            queryPositions: Uint32Array.of(position),
            cache,
          });
        heads.forEach((head, g) => {
          const scores = head.map(
              (s) => turn64(s.plain, s.rotation).reduce((sum, k, i) => sum + k * turn64(q, next)[i], 0) / Math.sqrt(d),
            ),
            top = Math.max(...scores);
          const weights = scores.map((s) => Math.exp(s - top)),
            total = weights.reduce((a, b) => a + b);
          const want = Array.from({ length: d }, (_, i) =>
            head.reduce((sum, s, j) => sum + (weights[j] / total) * s.value[i], 0),
          );
          expect(relative(out.subarray(g * d, (g + 1) * d), want)).toBeLessThan(1e-5);
          if (cache.rotations)
            expect([...cache.rotations.subarray(g * cache.capacity, g * cache.capacity + head.length)]).toEqual(
              head.map((s) => s.rotation),
            );
        });
        const once = [...cache.keys.codes];
        cache.rebase(
          (next = Math.max(...heads.map((h) => h.length))),
          rotator(angles, [...(cache.rotations ?? cache.positions), ...Array(next + 1).keys()]),
        );
        const twice = [...cache.keys.codes];
        cache.rebase(next, rotator(angles, cache.rotations!));
        expect([...cache.keys.codes]).toEqual(twice);
        expect(once).toHaveLength(twice.length);
        cache.destroy();
        expect([ledger.live, ledger.allocated]).toEqual([0, 0]);
      }),
    );
  });
});

let model: Model, ids: number[];
beforeAll(async () => {
  model = await loadModel(reference('data/goldens/llama'));
  ({ ids } = referenceJson<{ ids: number[] }>('data/goldens/llama/golden.json'));
});
const policies: readonly (readonly [string, Policy, (o: ReturnType<typeof oracle64>, l: number) => number[][]])[] = [
  ['streaming', compose(streaming({ sinks: 4 }), topK()), (o, l) => scores64.streaming(o, l)],
  [
    'snapkv',
    compose(snapkv({ window: 6, kernel: 3 }), topK()),
    (o, l) => scores64.snapkv(o, l, { window: 6, kernel: 3 }),
  ],
];

describe('past the window', () => {
  test.each(policies)(
    '%s: kept slots and logits are those of a float64 oracle that turns unrotated keys',
    async (_, policy, scores) => {
      const [window, budget, block, every] = [48, 24, 16, 5],
        sequence = new Sequence(model, undefined, { window });
      const oracle = oracle64(model.config, weights64(reference('data/goldens/llama/model.safetensors')));
      let at = 0,
        rebases = 0,
        logits: ArrayLike<number> = [];
      const feed = (tokens: readonly number[]): void => {
        if (at + tokens.length > window) {
          at = oracle.rebase();
          rebases++;
        }
        for (const id of tokens) logits = oracle.feed(id);
        at += tokens.length;
      };
      const evict = (): void => {
        for (const l of oracle.cache.keys()) {
          if (oracle.cache[l][0].length > budget) {
            const s = scores(oracle, l);
            cut(
              oracle,
              l,
              s.map((row) => best(row, budget)),
            );
          }
        }
      };
      const prompt = ids.slice(0, 112);
      for (let from = 0; from < prompt.length; from += block) {
        feed(prompt.slice(from, from + block));
        evict();
      }
      await sequence.prefill(prompt, { policy, budget, block });
      expect(relative((await sequence.logits())[0], logits)).toBeLessThan(2e-4);
      for (const [i, id] of ids.slice(112, 160).entries()) {
        await sequence.step(id, every);
        feed([id]);
        if ((i + 1) % every === 0) evict();
        expect(relative((await sequence.logits())[0], logits)).toBeLessThan(2e-4);
      }
      expect(sequence.kept()).toEqual(
        oracle.cache.map((heads) => heads.map((entries) => entries.map((e) => e.position))),
      );
      expect(rebases).toBeGreaterThan(4);
      sequence.destroy();
      expect([sequence.memory.ledger.live, sequence.memory.ledger.allocated]).toEqual([0, 0]);
    },
  );
  test.each([
    ['streaming', compose(streaming(), topK())],
    ['snapkv', compose(snapkv({ window: 8 }), topK())],
    ['h2o', compose(h2o(), topK())],
    ['knorm', compose(knorm(), topK())],
  ] as const)('%s: a fork goes on as its source does', async (_, policy) => {
    const sequence = new Sequence(model, undefined, { window: 40 });
    await sequence.prefill(ids.slice(0, 100), { policy, budget: 20, block: 16 });
    const fork = sequence.fork(),
      runs: number[][] = [[], []];
    for (const [i, each] of [sequence, fork].entries())
      for await (const { token } of decode(each, { maxNewTokens: 40, every: 4, stopAtEos: false }))
        if (token !== undefined) runs[i].push(token);
    expect(runs[1]).toEqual(runs[0]);
    expect(runs[0]).toHaveLength(40);
    expect(await fork.logits()).toEqual(await sequence.logits());
    expect(sequence.progress.length).toBe(139);
    for (const each of [sequence, fork]) {
      each.destroy();
      expect([each.memory.ledger.live, each.memory.ledger.allocated]).toEqual([0, 0]);
    }
  });
  test('a window that is not reached changes nothing', async () => {
    const policy = compose(snapkv({ window: 8 }), topK()),
      [a, b] = [new Sequence(model), new Sequence(model, undefined, { window: 60 })];
    for (const each of [a, b]) await each.prefill(ids.slice(0, 60), { policy, budget: 20, block: 16 });
    expect(await b.logits()).toEqual(await a.logits());
    expect(b.memory.ledger.bytes().live).toBe(a.memory.ledger.bytes().live);
    for (const each of [a, b]) each.destroy();
  });
});

describe('a cache that is full', () => {
  test('ends a generation, and is one sentence for a prompt', async () => {
    const sequence = new Sequence(model, undefined, { window: 30 });
    await sequence.prefill(ids.slice(0, 28));
    const run = decode(sequence, { maxNewTokens: 9, stopAtEos: false });
    let made = 0,
      next = await run.next();
    for (; !next.done; next = await run.next()) if (next.value.token !== undefined) made++;
    expect([made, next.value]).toEqual([3, 'context']);
    const before = sequence.kept();
    await expect(sequence.append(ids.slice(0, 1))).rejects.toThrow(
      "prompt: must fit the model's context of 30 tokens, got 31",
    );
    await expect(sequence.step(3)).rejects.toThrow("generation: must fit the model's context of 30 tokens, got 31");
    await sequence.evict(compose(streaming(), topK()), 20);
    await expect(sequence.append(ids.slice(0, 11))).rejects.toThrow('of 30 tokens, got 20 kept slots and 11 more');
    expect(sequence.kept()).not.toEqual(before);
    await sequence.append(ids.slice(0, 10));
    expect(
      sequence
        .kept()
        .flat()
        .every((slots) => slots.length === 30),
    ).toBe(true);
    sequence.destroy();
  });
  test('blocks that cannot fit in addition to the budget are refused before anything is fed', async () => {
    const sequence = new Sequence(model, undefined, { window: 30 });
    await expect(
      sequence.prefill(ids, { policy: compose(streaming(), topK()), budget: 20, block: 11 }),
    ).rejects.toThrow("must fit the model's context of 30 tokens");
    expect(sequence.progress.length).toBe(0);
    expect(() => new Sequence(model, undefined, { window: 0 })).toThrow(
      'window: must be a positive whole number of tokens, got 0',
    );
  });
});

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compose, mandatory } from '@kv/core';
import { cpu, readCpu } from '@kv/cpu';
import { compile, emptyDraft, isState, runSteps } from '@kv/core/engine';
import type { AnySignal, LayerContext, Tensor, StepInput, DraftSelection } from '@kv/core';
import { each, kernelLaws, unitLaws } from '@kv/laws';
import type { LawOptions } from '@kv/laws';
import { breath, carryKernel, collector, holding, resonance, trunks } from '../src/index.ts';
import { stretches } from '../src/sentence-spans.ts';
import { activeOracle, breatheOracle, stepOracle } from './breath.oracle.ts';
import type { Grove } from './breath.oracle.ts';
import { asSignal, noise, randomEdges, randomTokens } from './given.ts';
import type { Edge } from './trunks.oracle.ts';

/** The first layer's edges, whichever layer asks. */
const signals: LawOptions['signals'] = (signal, { at }) =>
  signal.id === 'crystalcache.co-attention'
    ? asSignal(randomEdges(at.length, at.length), at.length, at.length)
    : undefined;
describe.each([
  ['64', breath()],
  ['4', breath({ interval: 4, alpha: 0.5, hops: 1 })],
])('breath every %s', (_, piece) => {
  each(unitLaws(compose(trunks({ maxSize: 4 }), piece), { signals, runs: 25 }), test);
});
describe.each([carryKernel, holding])('$id', (kernel) => {
  each(kernelLaws(kernel), test);
});
describe.each([0, 1])('breath-resonance, once: %i', (once) => {
  each(
    kernelLaws(resonance, {
      make: ({ slots, seed }) => {
        const next = noise(seed + 1),
          n = Math.max(1, slots),
          E = Math.max(1, (n * (n - 1)) / 2);
        return {
          inputs: {
            weight: {
              data: Float32Array.from({ length: E }, (__, e) => (next(e) > 0.6 ? next(99 + e) : 0)),
              shape: [1, E],
            },
            lit: { data: Float32Array.from({ length: n }, (__, u) => Number(next(999 + u) > 0.5)), shape: [1, n] },
          },
          params: { hops: 2, gain: 1, once },
        };
      },
    }),
    test,
  );
});

/** A sequence of one layer and two heads whose engine is this test: states by signal, slots by head. */
class Bench {
  readonly states = new Map<string, Tensor>();
  length: number;
  step = 0;
  slots: number[];
  readonly prompt: number;
  readonly edges: readonly Edge[];
  readonly seed: number;
  constructor(prompt: number, edges: readonly Edge[], seed: number) {
    [this.prompt, this.edges, this.seed] = [prompt, edges, seed];
    this.length = prompt;
    this.slots = Array.from({ length: prompt }, (_, i) => i);
  }
  norm = (head: number, p: number): number => 0.2 + noise(this.seed + head)(p) ** 3 * 8;
  get at(): LayerContext {
    const n = this.slots.length;
    return {
      layer: 0,
      layers: 1,
      queryHeads: 2,
      kvHeads: 2,
      headDim: 2,
      step: this.step,
      promptLength: this.prompt,
      length: this.length,
      slots: n,
      aligned: true,
      budget: n,
      selectRows: 2,
    };
  }
  read = (signal: AnySignal): unknown => {
    const n = this.slots.length,
      { ops } = cpu;
    if (isState(signal)) return this.states.get(signal.id) ?? ops.from({ data: Float32Array.of(-1), shape: [1, 1] });
    if (signal.id === 'tokens') return randomTokens(this.length, this.seed);
    if (signal.id === 'crystalcache.co-attention')
      return asSignal(
        this.edges.filter(({ i, j }) => i < this.length && j < this.length),
        this.length,
        this.seed,
      );
    if (signal.id === 'keys')
      return ops.from({
        data: Float32Array.from([0, 1].flatMap((h) => this.slots.flatMap((p) => [0, this.norm(h, p)]))),
        shape: [2, n, 2],
      });
    return ops.from({ data: Uint32Array.from([...this.slots, ...this.slots]), shape: [2, n] }, 'u32');
  };
  event(policy: ReturnType<typeof build>): DraftSelection {
    const { at, read } = this,
      layer = { at, read, budgets: [at.slots, at.slots] },
      n = at.slots;
    const scores = cpu.ops.from({
      data: Float32Array.from(this.slots, (p) => noise(this.seed + 5)(p) * 5),
      shape: [1, n],
    });
    const draft = runSteps(compile(policy).steps, [layer], cpu.ops, [{ ...emptyDraft(layer, cpu.ops), scores }])[0];
    draft.state.forEach((t, id) => this.states.set(id, t));
    return draft;
  }
  token(policy: ReturnType<typeof build>): void {
    this.slots.push(this.length++);
    this.step++;
    for (const hook of compile(policy).hooks('step'))
      hook
        .run([{ at: this.at, ops: cpu.ops, draft: {}, read: this.read } as unknown as StepInput])[0]
        .forEach((t, id) => this.states.set(id, t));
  }
  state = (name: string): number[] => Array.from(readCpu(this.states.get(`state.breath.${name}`)!).data);
}
const rates = fc.record({
  decay: fc.constantFrom(0, 0.05, 0.5),
  hops: fc.constantFrom(0, 1, 2),
  pulses: fc.constantFrom('search', 'walks'),
  gain: fc.constantFrom(0.15, 0.9),
  bond: fc.constantFrom(0.05, 0.3),
  fade: fc.constantFrom(0.99, 0.5),
});
const build = (options: object, interval: number) =>
  compose(mandatory({ sinks: 1, recent: 2 }), trunks({ maxSize: 4, run: interval }), breath({ interval, ...options }));
const numbers = (x: Tensor | undefined): number[] => Array.from(readCpu(x!).data);
const dense = (edges: readonly Edge[], of: readonly number[], count: number): number[][] => {
  const size = (u: number): number => of.filter((x) => x === u).length;
  return Array.from({ length: count }, (_, a) =>
    Array.from({ length: count }, (__, b) => {
      const ws = edges
        .filter(({ i, j }) => (of[i] === a && of[j] === b) || (of[i] === b && of[j] === a))
        .map(({ w }) => w);
      const weight =
        a === b || ws.length === 0
          ? 0
          : (ws.reduce((s, w) => s + w, 0) / ws.length) * Math.sqrt(ws.length / (size(a) * size(b)));
      return weight > 0.05 ? weight : 0;
    }),
  );
};

test('D, edges and scores follow the oracle through tokens, losses and breaths', () => {
  fc.assert(
    fc.property(
      fc.record({
        n: fc.integer({ min: 3, max: 24 }),
        seed: fc.integer({ min: 1, max: 9999 }),
        interval: fc.integer({ min: 1, max: 6 }),
        options: rates,
      }),
      ({ n, seed, interval, options }) => {
        const whole = n + 3 * interval,
          old = randomEdges(n, seed),
          later = randomEdges(whole, seed + 1).filter(({ i, j }) => i >= n || j >= n),
          edges = [...old, ...later].sort((a, b) => a.i - b.i);
        const bench = new Bench(n, edges, seed),
          policy = build(options, interval);
        let draft = bench.event(policy),
          of = numbers(draft.units!.of).slice(0, n),
          count = draft.units!.count;
        expect(draft.forced).toBeDefined();
        const counts = (): number[] =>
          Array.from({ length: count }, (_, u) => bench.slots.filter((p) => of[p] === u).length * 2);
        const grove: Grove = {
          D: bench.state('strength'),
          M: bench.state('impact'),
          W: dense(
            edges.filter(({ i, j }) => i < n && j < n),
            of,
            count,
          ),
          held: counts(),
        };
        for (let round = 0; round < 3; round++) {
          // an eviction
          bench.slots = bench.slots.filter((p) => noise(seed + round + 50)(p) > 0.3 || p === bench.slots[0]);
          for (let t = 0; t < interval; t++) {
            bench.token(policy);
            stepOracle(grove, counts(), { ...options } as never);
          }
          bench
            .state('strength')
            .slice(0, count)
            .forEach((d, g) => expect(d).toBeCloseTo(grove.D[g], 4));
          draft = bench.event(policy);
          const before = count,
            table = bench.state('trunk');
          expect(table.slice(0, of.length)).toEqual(of); // what was cut stays cut so
          [of, count] = [table, draft.units!.count];
          const fresh = dense(
              edges.filter(({ i, j }) => i < bench.length && j < bench.length),
              of,
              count,
            ),
            D = bench.state('strength');
          const W = fresh.map((row, a) => row.map((w, b) => (a < before && b < before ? grove.W[a][b] : w)));
          const active = activeOracle(
            Array.from({ length: count }, (_, u) => bench.slots.filter((p) => of[p] === u)),
            new Map(bench.slots.map((p) => [p, [bench.norm(0, p), bench.norm(1, p)]])),
          );
          Object.assign(grove, { W, M: [...grove.M, ...bench.state('impact').slice(before)], held: counts() });
          const unborn: Grove = { ...grove, D: Array.from({ length: count }, (_, g) => grove.D[g] ?? 0) };
          breatheOracle(unborn, active, options);
          D.slice(0, before).forEach((d, g) => expect(d).toBeCloseTo(unborn.D[g], 4));
          const weights = bench.state('edges');
          for (let b = 1; b < count; b++)
            for (let a = 0; a < b; a++) expect(weights[(b * (b - 1)) / 2 + a]).toBeCloseTo(unborn.W[a][b], 4);
          Object.assign(grove, { D: [...unborn.D.slice(0, before), ...D.slice(before)], W: unborn.W });
          expect(draft.forced).toBeUndefined();
          numbers(draft.unitScores).forEach((x, i) => expect(x).toBeGreaterThanOrEqual(D[i % count] - 1e-6));
        }
      },
    ),
    { numRuns: 60 },
  );
});

test('a prompt after a conversation starts again: at a step between two breaths everything is computed again, and forced slots stay', () => {
  const bench = new Bench(12, randomEdges(30, 3), 3),
    policy = build({}, 4);
  const start = numbers(bench.event(policy).unitScores);
  bench.token(policy);
  bench.length = bench.slots.length = 12;
  const again = bench.event(policy);
  expect(numbers(again.unitScores)).toEqual(start);
  expect(again.forced).toBeDefined();
});
test('stretches: the prompt, then runs that begin where breaths were, also after a later prompt', () => {
  const starts = (length: number, promptLength: number, step: number) =>
    stretches({ length, promptLength, step }, 4).map((x) => x.start);
  expect(starts(10, 10, 0)).toEqual([0]);
  expect(starts(19, 10, 9)).toEqual([0, 10, 14, 18]);
  // four tokens, a prompt of four more, four tokens: breaths at steps 4 and 8
  expect(starts(24, 20, 8)).toEqual([0, 20]);
  expect(starts(27, 20, 10)).toEqual([0, 20, 21, 25]);
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 20 }),
      fc.nat(20),
      fc.nat(20),
      fc.integer({ min: 1, max: 7 }),
      (prompt, before, made, run) => {
        const all = stretches({ length: prompt + made, promptLength: prompt, step: made + before }, run);
        all.forEach(({ start, end }, i) => {
          expect(end).toBeGreaterThan(start);
          expect(end).toBe(all[i + 1]?.start ?? prompt + made);
          if (start >= prompt) expect(end - start).toBeLessThanOrEqual(run);
        });
        const later = stretches({ length: prompt + made + 3, promptLength: prompt, step: made + before + 3 }, run);
        if ((made + before) % run === 0) expect(later.slice(0, all.length)).toEqual(all);
      },
    ),
    { numRuns: 100 },
  );
});
test('generated tokens have edges to what they read and none by cosine, and what was taken can go on', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 12 }),
      fc.integer({ min: 1, max: 8 }),
      fc.integer({ min: 1, max: 999 }),
      (prompt, more, seed) => {
        const rows = (q: number): Float32Array => {
          const row = Float32Array.from({ length: q + 1 }, (_, i) => noise(seed)(q * 31 + i) ** 4),
            sum = row.reduce((a, b) => a + b, 0);
          return row.map((x) => x / sum);
        };
        const [whole, parts, short] = [
          collector({ prompt, chunk: 5 }),
          collector({ prompt, chunk: 5 }),
          collector({ chunk: 5 }),
        ];
        for (let q = 0; q < prompt + more; q++) {
          whole.add(q, rows(q));
          parts.add(q, rows(q));
          if (q < prompt) short.add(q, rows(q));
          if (q + 1 >= prompt) parts.take();
        }
        const got = whole.take(),
          text = ({ from, to, weight }: typeof got): string[] =>
            Array.from(from, (i, e) => `${i},${to[e]},${weight[e]}`);
        expect(parts.take()).toEqual(got);
        const want = Array.from({ length: more }, (_, k) => prompt + k).flatMap((q) =>
          Array.from(rows(q))
            .slice(0, q)
            .map((w, i) => ({ i, w }))
            .filter(({ w }) => w > 0.02)
            .sort((a, b) => b.w - a.w)
            .slice(0, 4)
            .map(({ i, w }) => `${i},${q},${w}`),
        );
        expect(
          text(got)
            .filter((e) => Number(e.split(',')[1]) >= prompt)
            .sort(),
        ).toEqual(want.sort());
        expect(
          text(got)
            .filter((e) => Number(e.split(',')[1]) < prompt)
            .sort(),
        ).toEqual(text(short.take()).sort());
        expect(got.saliency.slice(0, prompt)).toEqual(short.take().saliency);
      },
    ),
    { numRuns: 50 },
  );
});
test.each([
  ['interval', { interval: 0 }],
  ['alpha', { alpha: -1 }],
  ['hops', { hops: 3 }],
  ['decay', { decay: 2 }],
  ['gain', { gain: -0.1 }],
  ['pulses', { pulses: 'waves' as never }],
  ['bond', { bond: 2 }],
  ['fade', { fade: 1.1 }],
])('%s is checked', (name, options) => {
  expect(() => breath(options)).toThrow(`breath: ${name} must be`);
});

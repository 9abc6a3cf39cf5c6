import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { AnySignal, LayerContext, StepInput, Tensor } from '@kv/core';
import { compile, isState } from '@kv/core/engine';
import { apply, cpu, readCpu } from '@kv/cpu';
import { each, scorerLaws } from '@kv/laws';
import { recurrence } from '../src/index.ts';
import { fresh, look, score } from './recurrence.oracle.ts';
import type { Tracked } from './recurrence.oracle.ts';

/** State as some steps might have left it. */
const stated = (signal: AnySignal, at: LayerContext, seed: number): Float32Array =>
  Float32Array.from({ length: at.kvHeads * (signal.as === 'started' ? 1 : at.slots) }, (_, i) =>
    signal.as === 'started' ? 1 : signal.as === 'seen' ? ((i * 7 + seed) % (at.length + 1)) - 1 : (i * 5 + seed) % 4,
  );
for (const started of [false, true])
  describe(started ? 'after some steps' : 'before the first', () =>
    each(
      scorerLaws(recurrence({ recent: 1 }), {
        runs: 30,
        ...(started && {
          signals: (signal, { at, seed }, ops) => {
            if (!isState(signal)) return undefined;
            const data = stated(signal, at, seed);
            return ops.from({ data, shape: [at.kvHeads, data.length / at.kvHeads] });
          },
        }),
      }),
      test,
    ),
  );

/** A cache of one layer, aligned, that a piece with a step hook runs over without an engine. */
function stepping(above: number, prompt: number) {
  const piece = recurrence({ above, recent: 0 }),
    hook = compile(piece).hooks('step')[0],
    state = new Map<string, Float32Array>(),
    positions = Array.from({ length: prompt }, (_, p) => p);
  let length = prompt;
  const at = (heads: number): LayerContext => ({
    ...{ layer: 0, layers: 1, queryHeads: heads, kvHeads: heads / 2, headDim: 1, step: length - prompt },
    ...{ promptLength: prompt, length, slots: positions.length, aligned: true, budget: 1, selectRows: heads / 2 },
  });
  const value = (signal: AnySignal, attention: readonly (readonly number[])[]): Tensor => {
    const here = at(attention.length),
      rows = here.kvHeads,
      from = (data: Float32Array | Uint32Array, r: number): Tensor =>
        cpu.ops.from({ data, shape: [r, data.length / r] }, data instanceof Uint32Array ? 'u32' : 'f32');
    if (signal.id === 'positions')
      return from(Uint32Array.from(Array.from({ length: rows }, () => positions).flat()), rows);
    if (signal.id === 'attention.last') return from(Float32Array.from(attention.flat()), attention.length);
    if (!isState(signal)) throw new Error(signal.id);
    const width = signal.state.kind === 'slot' ? positions.length : 1,
      before = state.get(signal.id) ?? new Float32Array(0),
      had = before.length / rows,
      data = new Float32Array(rows * width).fill(signal.state.init ?? 0);
    for (let r = 0; r < rows; r++) data.set(before.subarray(r * had, (r + 1) * had), r * width);
    return from(data, rows);
  };
  const cell = (attention: readonly (readonly number[])[]): StepInput =>
    ({
      at: at(attention.length),
      ops: cpu.ops,
      read: (signal: AnySignal) => value(signal, attention),
      draft: {},
    }) as never;
  return {
    positions,
    /** A generated token, whose query gave these weights. */
    step(attention: readonly (readonly number[])[]): void {
      for (const [id, tensor] of hook.run([cell(attention)])[0]) state.set(id, Float32Array.from(readCpu(tensor).data));
    },
    append(): void {
      positions.push(length++);
    },
    evict(slot: number, rows: number): void {
      positions.splice(slot, 1);
      for (const [id, data] of state)
        if (data.length > rows)
          state.set(
            id,
            data.filter((_, i) => i % (data.length / rows) !== slot),
          );
    },
    scores(attention: readonly (readonly number[])[]): Float32Array {
      const named = Object.fromEntries(
        compile(piece).needs.map((signal) => {
          const { data, shape } = readCpu(value(signal, attention));
          return [isState(signal) ? signal.id : signal.as, { data, shape }];
        }),
      );
      return apply(piece, { ...named, at: at(attention.length) }).scores!.data as Float32Array;
    },
  };
}
const weights = fc.constantFrom(0, 0.05, 0.1, 0.5);
test('scores over many steps and evictions agree with the oracle', () =>
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 4 }),
      fc.array(fc.record({ seed: fc.array(weights, { minLength: 40, maxLength: 40 }), evict: fc.option(fc.nat(9)) }), {
        minLength: 1,
        maxLength: 12,
      }),
      (prompt, steps) => {
        const above = 0.07,
          run = stepping(above, prompt),
          heads: Tracked[][] = [0, 1].map(() => Array.from({ length: prompt }, (_, p) => fresh(p)));
        let t = prompt - 1,
          rows: number[][] = [];
        for (const { seed, evict } of steps) {
          run.append();
          t++;
          for (const slots of heads) slots.push(fresh(t));
          // two query heads a KV head
          rows = [0, 1, 2, 3].map((h) => run.positions.map((_, j) => seed[(j + h * 10) % seed.length]));
          run.step(rows);
          heads.forEach((slots, g) =>
            look(
              slots,
              run.positions.map((_, j) => Math.max(rows[2 * g][j], rows[2 * g + 1][j])),
              t,
              above,
              prompt,
            ),
          );
          if (evict !== null && evict < run.positions.length - 1) {
            run.evict(evict, 2);
            for (const slots of heads) slots.splice(evict, 1);
            rows = rows.map((row) => row.filter((_, j) => j !== evict));
          }
          const got = run.scores(rows);
          heads
            .flatMap((slots) => slots.map((slot) => score(slot, t, prompt)))
            .forEach((want, i) => expect(Math.abs(got[i] - want)).toBeLessThan(1e-5));
        }
      },
    ),
    { numRuns: 60 },
  ));
test('before a token was generated the newest query decides, by the largest weight of a group', () => {
  expect([
    ...stepping(0.1, 3).scores([
      [0.5, 0.25, 0.25],
      [0, 0.75, 0.25],
    ]),
  ]).toEqual([0.5, 0.75, 0.25]);
});
test('a slot that comes back after a long time outlasts one that came back soon, and one that none looks at goes first', () => {
  const run = stepping(0.1, 3),
    rows = (at: readonly number[]): number[][] =>
      [0, 1].map(() => run.positions.map((_, j) => (at.includes(j) ? 1 : 0)));
  // slot 0 is looked at every sixth token, slot 1 twice at the start, slot 2 never
  for (let i = 1; i <= 16; i++) {
    run.append();
    run.step(rows([...(i % 6 === 0 ? [0] : []), ...(i === 1 || i === 2 ? [1] : [])]));
  }
  const [often, early, never] = run.scores(rows([]));
  expect(often).toBeGreaterThan(early);
  expect(early).toBeGreaterThan(never);
  expect(never).toBe(0);
});
test('numbers are checked', () => {
  expect(() => recurrence({ above: 1 })).toThrow('recurrence: above must be a number of at least 0 and below 1, got 1');
});

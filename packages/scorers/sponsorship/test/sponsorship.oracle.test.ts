import fc from 'fast-check';
import { expect, test } from 'vitest';
import { apply, cpu, readCpu } from '@kv/cpu';
import { compile, isState } from '@kv/core/engine';
import type { Tensor, StepInput } from '@kv/core';
import { detector, learnRank, pension, ranker, recency, sponsorship, structure } from '../src/index.ts';
import { vouchersOracle } from './sponsorship.oracle.ts';

/** f32 sums of at most 12 vouchers of at most 15. */
const TOLERANCE = 1e-5;
const at = (anchors: readonly number[]) => detector('at', {}, () => () => anchors)();
const silent = (n: number) => ({ ids: new Array<number>(n).fill(0), text: '', offsets: [] });
const cases = fc.integer({ min: 1, max: 40 }).chain((n) =>
  fc.record({
    n: fc.constant(n),
    anchors: fc.uniqueArray(fc.nat(n - 1)),
    kept: fc.subarray(
      Array.from({ length: n }, (_, i) => i),
      { minLength: 1 },
    ),
    reach: fc.integer({ min: 1, max: 12 }),
  }),
);
const row = (kept: readonly number[]) => ({ data: Uint32Array.from(kept), shape: [1, kept.length] });

test('vouchers agree with the oracle, whatever was evicted, anchors included', () => {
  fc.assert(
    fc.property(cases, ({ n, anchors, kept, reach }) => {
      const got = apply(sponsorship({ reach, anchors: at(anchors) }), {
        tokens: silent(n),
        positions: row(kept),
        at: { length: n },
      }).scores!.data;
      const want = vouchersOracle(
        Array.from({ length: n }, (_, i) => (anchors.includes(i) ? 15 : 0)),
        reach,
      );
      kept.forEach((p, i) => expect(Math.abs(got[i] - want.get(p))).toBeLessThanOrEqual(TOLERANCE * 15));
    }),
  );
});

test('by hand: B = 15, L = 6, anchors at 1 and 3', () => {
  const got = apply(sponsorship({ anchors: at([1, 3]) }), { tokens: silent(11) }).scores!.data;
  [0, 0, 12, 9.6, 7.68 + 12, 6.144 + 9.6, 4.9152 + 7.68, 3.93216 + 6.144, 4.9152, 3.93216, 0].forEach((v, i) =>
    expect(got[i]).toBeCloseTo(v, 5),
  );
});

test('budgets decay once a generated token, for tokens that were there, and start again at later anchors', () => {
  const piece = sponsorship({ anchors: at([0, 5]), decay: 0.5 }),
    [hook] = compile(piece).hooks('step');
  expect(compile(piece).hooks('step')).toHaveLength(1);
  expect(hook.reach).toBe('model');
  const state = hook.needs.find(isState)!;
  expect(state.state).toMatchObject({ kind: 'position', rows: 'model', init: 1 });
  const after = (fresh: Tensor): Tensor =>
    hook.run([{ ops: cpu.ops, at: {}, draft: {}, read: () => fresh } as unknown as StepInput])[0].get(state.id)!;
  // a token generated after four of the prompt: those decay, and a token is not a token old when it comes
  const first = readCpu(after(cpu.ops.from({ data: Float32Array.of(1, 1, 1, 1, 1), shape: [1, 5] }))).data;
  expect([...first]).toEqual([0.5, 0.5, 0.5, 0.5, 1]);
  const fresh = after(cpu.ops.from({ data: Float32Array.of(...first, 1), shape: [1, 6] }));
  const got = apply(piece, { tokens: silent(6), positions: row([1, 2, 3, 4, 5]), at: { length: 6 }, fresh }).scores!
    .data;
  const want = vouchersOracle([15 * 0.25, 0, 0, 0, 0, 15], 6);
  [1, 2, 3, 4, 5].forEach((p, i) => expect(got[i]).toBeCloseTo(want.get(p), 5));
  // the anchor at 5 was generated last: the token after it has all of its budget
  const next = apply(piece, {
    tokens: silent(7),
    fresh: { data: Float32Array.of(...readCpu(fresh).data, 1), shape: [1, 7] },
  });
  expect(next.scores!.data[6]).toBeCloseTo(15 * 0.8 + 15 * 0.25 * 0.8 ** 6, 5);
});

test('two sponsorships of one policy share their state and decay once', () => {
  expect(sponsorship({ decay: 0.5 }).atoms.at(-1)!.needs[0].id).not.toBe(sponsorship().atoms.at(-1)!.needs[0].id);
  expect(sponsorship({ reach: 3 }).atoms.at(-1)!.needs[0].id).toBe(sponsorship().atoms.at(-1)!.needs[0].id);
});

test('structure is 1 on anchors, recency i / n', () => {
  expect(
    Array.from(
      apply(structure({ anchors: at([1, 9]) }), {
        tokens: silent(10),
        positions: row([0, 1, 8, 9]),
        at: { length: 10 },
      }).scores!.data,
    ),
  ).toEqual([0, 1, 0, 1]);
  expect(Array.from(apply(recency(), { positions: row([0, 1, 3]), at: { length: 4 } }).scores!.data)).toEqual([
    0.25, 0.5, 1,
  ]);
});

test('LearnRank vouches by how sure an anchor is, above 0.3 only', () => {
  fc.assert(
    fc.property(
      fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 30 }),
      fc.integer({ min: 1, max: 8 }),
      (f, reach) => {
        const sure = f.map(Math.fround),
          got = apply(learnRank({ strength: 1, rank: ranker('sure', {}, () => () => sure)(), reach }), {
            tokens: silent(f.length),
          }).scores!.data;
        vouchersOracle(
          sure.map((x) => (x > 0.3 ? x : 0)),
          reach,
        ).data.forEach((v, i) => expect(Math.abs(got[i] - v)).toBeLessThanOrEqual(TOLERANCE));
      },
    ),
    { numRuns: 50 },
  );
});

test('a pension starts with the newest attention and moves by 1 - rate with every token', () => {
  const piece = pension({ rate: 0.75 }),
    [hook] = compile(piece).hooks('step'),
    put = (...x: number[]): Tensor => cpu.ops.from({ data: Float32Array.from(x), shape: [1, x.length] });
  expect(Array.from(apply(piece, { attention: [[0.5, 0.25]] }).scores!.data)).toEqual([0.5, 0.25]);
  let state = new Map<string, Tensor>(
    hook.needs.filter(isState).map((s) => [s.id, put(...(s.state.kind === 'slot' ? [0, 0] : [0]))]),
  );
  const want = [0, 0];
  for (const [i, attention] of [
    [0.5, 0.25],
    [0.125, 0.5],
    [1, 0],
  ].entries()) {
    state = new Map(
      hook.run([
        {
          ops: cpu.ops,
          at: {},
          draft: {},
          read: (s: { id: string }) => state.get(s.id) ?? put(...attention),
        } as unknown as StepInput,
      ])[0],
    );
    attention.forEach((a, slot) => {
      want[slot] = i === 0 ? a : 0.75 * want[slot] + 0.25 * a;
    });
  }
  expect(Array.from(readCpu(state.get('state.pension(0.75)')!).data)).toEqual(want);
  expect(Array.from(apply(piece, { attention: [[0, 1]], past: [want], started: [[1]] }).scores!.data)).toEqual(
    want.map(Math.fround),
  );
});

import fc from 'fast-check';
import {
  allocator,
  attentionLast,
  attentionWindow,
  compose,
  keys,
  KvError,
  mandatory,
  selector,
  sum,
  values,
  weightScorer,
} from '@kv/core';
import { retain } from '@kv/cpu';
import type { ApplyResult, DenseArray, Inputs, Piece } from '@kv/core';
import { claim, lawsOf } from './law.ts';
import type { Claim, Claims } from './law.ts';
import { random, vectors } from './random.ts';

/** A function that runs a piece on plain arrays of one layer, as core's `apply` and `applyOn` do. */
export type Apply = (piece: Piece, inputs: Inputs) => ApplyResult | Promise<ApplyResult>;

const topK = selector('topK', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks))();
const norms = weightScorer('norms', { needs: [keys, values] }, ({ ops, keys: k, values: v }) =>
  ops.add(ops.norm(k), ops.mul(ops.norm(v), 3)),
)();
const noted = allocator('noted', {}, (plan) => ({ ...plan, notes: [...plan.notes, 'as they were'] }))();
/** Two signals that pieces read by one name. */
const signals = [attentionLast, attentionWindow(2)] as const;
const both = sum(
  weightScorer('last', { needs: [signals[0]] }, ({ attention }) => attention)(),
  weightScorer('window', { needs: [signals[1]] }, ({ attention }) => attention)(),
);

interface Case {
  readonly budget: number;
  readonly sinks: number;
  readonly recent: number;
  readonly keys: DenseArray;
  readonly values: DenseArray;
  /** One row of weights for each of `signals`. */
  readonly rows: readonly (readonly number[])[];
}
const cases: fc.Arbitrary<Case> = fc
  .record({
    heads: fc.integer({ min: 1, max: 3 }),
    slots: fc.integer({ min: 1, max: 8 }),
    budget: fc.integer({ min: 1, max: 8 }),
    sinks: fc.nat(4),
    recent: fc.nat(4),
    seed: fc.nat(0xffff),
  })
  .map(({ heads, slots, seed, ...rest }) => {
    const next = random(seed),
      array = (): DenseArray => ({
        data: Float32Array.from(vectors('spread', heads * slots, 2, next)),
        shape: [heads, slots, 2],
      }),
      row = (): number[] => Array.from({ length: slots }, () => Math.round(next() * 8));
    return { ...rest, keys: array(), values: array(), rows: [row(), row()] };
  });
const text = (x: unknown): string => JSON.stringify(x);
/** Returns the result of a call, or the error that refuses it. */
const outcome = async (run: () => ApplyResult | Promise<ApplyResult>): Promise<ApplyResult | KvError> => {
  try {
    return await run();
  } catch (error) {
    if (error instanceof KvError) return error;
    throw error;
  }
};
type Property = Claim<Apply>;
const property =
  (judge: (apply: Apply, c: Case) => Promise<void>): Property =>
  (apply) =>
    fc.asyncProperty(cases, (c) => judge(apply, c));

/** Claims about functions such as `apply`, which run a piece on plain arrays. */
export const application = {
  /** With given keys and values it keeps what `retain` keeps. */
  kept: property(async (apply, { budget, keys: k, values: v }) => {
    const policy = compose(norms, topK),
      { kept } = await apply(policy, { keys: k, values: v, budget }),
      { slots } = await retain(policy, { layers: [{ keys: k, values: v }], queryHeads: k.shape[0] }, { budget }),
      want = slots[0].map((row) => Array.from(row));
    claim(text(kept) === text(want), () => `expected the slots ${text(want)}, got ${text(kept)}`);
  }),
  /** Forced slots stay, and more of them than the budget are refused: no budget is exceeded. */
  forced: property(async (apply, { budget, sinks, recent, keys: k, values: v }) => {
    const [, n] = k.shape,
      must = Array.from({ length: n }, (_, i) => i).filter((i) => i < sinks || i >= n - recent),
      got = await outcome(() =>
        apply(compose(norms, mandatory({ sinks, recent }), topK), { keys: k, values: v, budget }),
      ),
      fits = must.length <= budget;
    claim(got instanceof KvError !== fits, () =>
      got instanceof KvError
        ? `expected ${must.length} forced slots to fit a budget of ${budget}, got '${got.message}'`
        : `expected ${must.length} forced slots to be refused at a budget of ${budget}, got ${text(got.kept)}`,
    );
    for (const row of got instanceof KvError ? [] : (got.kept ?? []))
      claim(
        row.length <= budget && must.every((i) => row.includes(i)),
        () => `expected ${text(must)} to stay and ${budget} slots at most, got ${text(row)}`,
      );
  }),
  /** An allocator's notes about its budgets are in the result. */
  told: property(async (apply, { budget, keys: k, values: v }) => {
    const { notes } = await apply(compose(norms, noted, topK), { keys: k, values: v, budget });
    claim(text(notes) === text(['as they were']), () => `expected what the allocator said, got ${text(notes)}`);
  }),
  /** One array is not used for two signals that are read by its name; arrays under the signals' own names are. */
  apart: property(async (apply, { rows: [last, window] }) => {
    const one = await outcome(() => apply(both, { attention: [last] }));
    claim(one instanceof KvError, () => `expected one array for two signals to be refused, got ${text(one)}`);
    const { scores } = await apply(both, { 'attention.last': [last], 'attention.window(w=2)': [window] }),
      want = last.map((x, i) => x + window[i]);
    claim(
      text(Array.from(scores?.data ?? [])) === text(want),
      () => `expected the sums ${text(want)}, got ${text(scores)}`,
    );
  }),
} satisfies Claims<Apply>;

/** The laws of functions that run pieces on plain arrays. */
export const applyLaws = lawsOf(application);

import fc from 'fast-check';
import { sumOf } from '@kv/core/shared';
import { compile, showValue } from '@kv/core/engine';
import type { Piece, BudgetPlan } from '@kv/core';
import { claim, lawsOf } from './law.ts';
import type { Claim, Claims, LawOptions } from './law.ts';
import { random } from './random.ts';

/** An allocator that needs no scores. */
export type AnyAllocator = Piece<any, 'same'>;
/** Options of `allocatorLaws`. */
export interface AllocatorOptions extends LawOptions {
  /** How far the sum may miss the total, if an allocator declares its rounding. @defaultValue 0 */
  readonly slack?: ((layers: number, heads: number) => number) | undefined;
}

interface PlanSpec {
  readonly layers: number;
  readonly heads: number;
  readonly slots: number;
  readonly ragged: boolean;
  readonly budget: number;
  readonly floor: number;
  readonly seed: number;
}
const specs: fc.Arbitrary<PlanSpec> = fc.integer({ min: 1, max: 60 }).chain((slots) =>
  fc.record({
    layers: fc.integer({ min: 1, max: 8 }),
    heads: fc.integer({ min: 1, max: 4 }),
    slots: fc.constant(slots),
    ragged: fc.boolean(),
    budget: fc.nat(slots + 3),
    floor: fc.nat(6),
    seed: fc.nat(0xffff),
  }),
);
const lengths = ({ layers, heads, slots, ragged, seed }: PlanSpec): number[][] => {
  const next = random(seed);
  return Array.from({ length: layers }, () =>
    Array.from({ length: heads }, () => (ragged ? 1 + Math.floor(next() * slots) : slots)),
  );
};
/** Runs the allocator on uniform budgets, together with pieces that force `floor` slots. */
function plan(piece: AnyAllocator, spec: PlanSpec): BudgetPlan & { readonly spec: PlanSpec } {
  const all = lengths(spec),
    start: BudgetPlan = {
      budgets: all.map((heads) => heads.map(() => spec.budget)),
      lengths: all,
      floor: Math.min(spec.floor, spec.slots),
      notes: [],
    };
  const plans = compile(piece).steps.flatMap((s) => (s.kind === 'allocator' && s.plan ? [s.plan] : []));
  claim(plans.length > 0, () => `'${piece.label}' shares nothing out: expected a piece made by allocator()`);
  const made = plans.reduce((before, allot) => {
    const after: unknown = allot(before);
    claim(
      typeof after === 'object' && after !== null && Array.isArray((after as BudgetPlan).budgets),
      () => `'${piece.label}': expected budgets [layer][head], got ${showValue(after)}`,
    );
    return { ...before, ...(after as BudgetPlan) };
  }, start);
  return { ...made, spec };
}
type Judge = (budget: number, slots: number, plan: BudgetPlan & { readonly spec: PlanSpec }) => void;
const budgetsAre =
  (judge: Judge): Claim<AnyAllocator, AllocatorOptions> =>
  (piece) =>
    fc.property(specs, (spec) => {
      const made = plan(piece, spec);
      lengths(spec).forEach((heads, l) => heads.forEach((n, g) => judge(made.budgets[l]?.[g] ?? Number.NaN, n, made)));
    });
const fits = (lengths: BudgetPlan['lengths'], { budget }: PlanSpec): boolean =>
  lengths.flat().every((n) => n >= budget);

/** Claims about an allocator that needs no scores. */
export const allocator = {
  /** One budget for every layer and KV head. */
  shape: (piece) =>
    fc.property(specs, (spec) => {
      const { budgets } = plan(piece, spec);
      claim(
        budgets.length === spec.layers && budgets.every((row) => row.length === spec.heads),
        () => `expected budgets of ${spec.layers} layers and ${spec.heads} heads, got ${JSON.stringify(budgets)}`,
      );
    }),
  /** Whole numbers of at least 0. */
  whole: budgetsAre((b) =>
    claim(Number.isNaN(b) || (Number.isInteger(b) && b >= 0), () => `expected whole budgets, got ${b}`),
  ),
  /** The sum is the total asked for if every head has that many slots, and never above it. */
  total: (piece, { slack = () => 0 } = {}) =>
    fc.property(specs, (spec) => {
      const { budgets, lengths } = plan(piece, spec),
        want = spec.budget * spec.layers * spec.heads,
        got = sumOf(budgets.flat()),
        off = slack(spec.layers, spec.heads);
      claim(
        got <= want + off && (!fits(lengths, spec) || got >= want - off),
        () => `expected budgets that add up to ${want}, got ${got}`,
      );
    }),
  /** No head gets more slots than it has, unless it was offered more. */
  cap: budgetsAre((b, n, { lengths, spec }) =>
    claim(!fits(lengths, spec) || !(b > n), () => `a head of ${n} slots got a budget of ${b}`),
  ),
  /** No head gets less than the slots forced in it, if the mean covers them. */
  floor: budgetsAre((b, n, { spec }) =>
    claim(
      spec.budget < spec.floor || !(b < Math.min(spec.floor, n)),
      () => `a head of ${n} slots, ${spec.floor} of them forced, got a budget of ${b}`,
    ),
  ),
  /** The same input gives the same result. */
  deterministic: (piece) =>
    fc.property(specs, (spec) => {
      const [a, b] = [plan(piece, spec).budgets, plan(piece, spec).budgets].map((x) => JSON.stringify(x));
      claim(a === b, () => `the same plan gave ${a}, then ${b}`);
    }),
} satisfies Claims<AnyAllocator, AllocatorOptions>;
/** The laws of an allocator that needs no scores. */
export const allocatorLaws = lawsOf(allocator, ['slack']);

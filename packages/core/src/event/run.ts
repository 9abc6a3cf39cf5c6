import { raisedNote } from './allowance.ts';
import type { Allowance, BudgetTraits } from './allowance.ts';
import { apportion } from '../tensor/apportion.ts';
import { checkedPlan, expectObject, expectState, expectTensor, runGuarded, keptRows } from './boundary.ts';
import { KvError } from '../tensor/errors.ts';
import { budgetHint } from './forced.ts';
import type {
  LayerContext,
  DraftSelection,
  Hook,
  PositionSpan,
  WrappedSelection,
  BudgetPlan,
  Reach,
  Step,
  WrapSelectHook,
} from '../piece/atoms.ts';
import type { Ops } from '../tensor/maths.ts';
import { leastSlots, minSlotsOf } from './min-slots.ts';
import type { LevelShares } from '../piece/levels.ts';
import type { AnyPiece, Piece, Policy } from '../piece/piece.ts';
import { isPiece, otherProtocol, PROTOCOL, readBy } from '../piece/piece.ts';
import { showValue } from '../piece/option.ts';
import { expectAtoms, REACH } from './policy-boundary.ts';
import { compose } from '../compose/compose.ts';
import { MOST_SPANS, protect, protecting } from './protect.ts';
import { readOnly } from './read-only.ts';
import { sharedLevels } from './shared-levels.ts';
import { cellOf, pacedSteps, runSteps, starting } from './steps.ts';
import type { EventLayer, PacedSteps } from './steps.ts';
import { sameSignal } from '../piece/signals.ts';
import type { AnySignal } from '../piece/signals.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { joinedSpans, slotsIn } from '../piece/spans.ts';
import { sumOf } from '../tensor/sum-of.ts';

type HooksOf<A extends Hook['at']> = readonly Extract<Hook, { at: A }>[];

/** A compiled policy: what an engine needs to know to run it. */
export interface CompiledPolicy extends BudgetTraits {
  /** What was compiled. */
  readonly piece: Piece | Policy;
  readonly steps: readonly Step[];
  /** Signals that the event reads, each once. */
  readonly needs: readonly AnySignal[];
  /** The widest reach of its steps: `model` policies run after prefill, the others during it. */
  readonly reach: Reach;
  /** A step needs the whole prompt before it. */
  readonly needsFullPrompt: boolean;
  /**
   * Shares of the kept slots at each level, of each of its demotions, empty where an event alone decides; absent if it has
   * no demotion.
   */
  readonly levels?: readonly LevelShares[];
  hooks<A extends Hook['at']>(at: A): HooksOf<A>;
}

/** Returns the signals of several lists, each once, in order. */
export const union = (...lists: readonly (readonly AnySignal[])[]): readonly AnySignal[] =>
  lists.flat().filter((s, i, all) => all.findIndex((t) => sameSignal(s, t)) === i);

const compiled = new WeakMap<Piece | Policy, CompiledPolicy>();

/** Compiles a policy; the result is cached, since pieces are immutable. @throws KvError unless it is a piece */
export function compile(policy: Piece | Policy): CompiledPolicy {
  const known = compiled.get(policy);
  if (known) return known;
  expectPiece(policy);
  const made = compileUncached(policy);
  compiled.set(policy, made);
  return made;
}

/** Returns a policy that protects these positions too. */
export function withProtected(policy: CompiledPolicy, spans: readonly PositionSpan[]): CompiledPolicy {
  const all = joinedSpans([...policy.protectedSpans, ...spans]);
  if (slotsIn(all) === slotsIn(policy.protectedSpans)) return policy;
  // what was protected before is among these
  const bare = withoutProtected(policy),
    parts = Array.from({ length: Math.ceil(all.length / MOST_SPANS) }, (_, i) =>
      protect({ spans: all.slice(i * MOST_SPANS, (i + 1) * MOST_SPANS) }),
    ),
    made = compose(bare as AnyPiece, ...parts) as Policy;
  unprotected.set(made, bare);
  return compile(made);
}

/** Returns a policy as it was before the engine protected positions of it. */
export const withoutProtected = ({ piece }: CompiledPolicy): CompiledPolicy['piece'] => unprotected.get(piece) ?? piece;

/** What policies were before the engine protected positions of them. */
const unprotected = new WeakMap<Piece | Policy, Piece | Policy>();

/**
 * Checks that a value is a policy.
 * @throws KvError unless `policy` is a piece of this protocol
 */
export function expectPiece(policy: unknown): asserts policy is Piece {
  if (!isPiece(policy))
    throw new KvError(
      'policy',
      otherProtocol(policy, 'the policy') ??
        `expected a piece ({ protocol: ${PROTOCOL}, atoms, ... }), got ${typeof policy === 'string' ? readBy(policy) : showValue(policy)}`,
    );
}

function compileUncached(policy: Piece): CompiledPolicy {
  expectAtoms(policy, policy.atoms);
  const protectedSpans = joinedSpans(policy.atoms.flatMap((a) => (a.at === 'protect' ? a.spans : []))),
    steps = protecting(sharedLevels(policy.atoms.filter((a): a is Step => a.at === 'event')), protectedSpans),
    demotions = steps.filter(({ kind }) => kind === 'demotion'),
    minSlots = (slots: number, budget: number): number => minSlotsOf(steps, slots, budget),
    least = (slots: number, budget: number): number => leastSlots(steps, slots, budget);
  const forcers = (slots: number, budget: number): readonly string[] => [
    ...new Set(steps.flatMap((s) => (minSlotsOf([s], slots, budget) > 0 ? (s.forcers ?? [s.name]) : []))),
  ];
  return {
    piece: policy,
    label: policy.label,
    methodName: policy.methodName ?? policy.label,
    steps,
    needs: union(
      ...steps.map((s) => s.needs),
      ...policy.atoms.filter((a) => ['compact', 'evict'].includes(a.at)).map((a) => a.needs),
    ),
    reach: REACH[Math.max(0, ...steps.map((s) => REACH.indexOf(s.reach)))],
    needsFullPrompt: steps.some((s) => s.needsFullPrompt),
    evicts: policy.to === 'kept',
    open: steps.some((s) => s.open),
    protectedSpans,
    choosesBudget: steps.some((s) => s.choosesBudget),
    raises: steps.some((s) => s.choosesBudget || (s.approximate && !s.plan)),
    ...(demotions.length > 0 && { levels: demotions.map(({ shares = {} }) => shares) }),
    hooks: <A extends Hook['at']>(at: A) => policy.atoms.filter((a) => a.at === at) as unknown as HooksOf<A>,
    minSlots,
    least,
    forcers,
    budgetHint: (slots, budget) =>
      budgetHint(Math.max(minSlots(slots, budget), least(slots, budget)), forcers(slots, budget)),
  };
}

/**
 * Returns budgets per layer and KV head before scores are known: the uniform start value passed through the policy's
 * host allocators, never above the slots present.
 *
 * @remarks If an allocator that reads scores redistributes them later, the part of a budget that exceeds a head's slots
 * goes to other heads, of its layer or of the model as that allocator's reach says: no slot of the total is lost
 * because earlier events left heads unequal.
 * @param allowed slots per layer and KV head on average, or what a budget allows
 * @param lengths slots present, `[layer][kvHead]`
 * @throws KvError for a number of slots that is not whole, and for allocators in the wrong order
 */
export function planBudgets(
  policy: CompiledPolicy,
  allowed: number | Allowance,
  lengths: readonly (readonly number[])[],
): BudgetPlan {
  const allowance: Allowance = typeof allowed === 'number' ? { slots: allowed } : allowed,
    { slots: budget, share } = allowance;
  if (!Number.isInteger(budget) || budget < 0)
    throw new KvError('budget', `must be a whole number of slots per layer and KV head, at least 0, got ${budget}`);
  const most = Math.max(0, ...lengths.flat()),
    note = raisedNote(policy, allowance);
  let plan: BudgetPlan = {
    budgets: lengths.map((heads) => heads.map(() => budget)),
    lengths,
    requested: note === undefined ? (allowance.requested ?? budget) : budget,
    floor: policy.minSlots(most, budget),
    ...(share !== undefined && { above: { share, forced: policy.open ? most : policy.minSlots(most, budget) } }),
    notes: [note ?? [], unknownShares(policy, allowance) ?? []].flat(),
  };
  let scored: Step | undefined;
  for (const step of policy.steps) {
    if (step.kind !== 'allocator') continue;
    if (!step.plan) {
      scored = step;
      continue;
    }
    if (scored)
      throw new KvError(
        'compose',
        `'${step.name}' shares budgets out before scores are read and must stand before '${scored.name}', which reads them`,
      );
    const before = plan;
    const { plan: allot } = step;
    const given = { ...before, budgets: frozen(before.budgets), lengths: frozen(before.lengths) };
    plan = checkedPlan(
      step,
      before,
      runGuarded(step.name, 0, () => allot(given)),
    );
  }
  if (!scored)
    return { ...plan, budgets: plan.budgets.map((heads, l) => heads.map((b, g) => Math.min(b, lengths[l][g]))) };
  const fill = (budgets: readonly number[], caps: readonly number[]): number[] =>
    apportion(budgets, sumOf(budgets), 0, caps);
  if (
    policy.steps.every(({ kind, plan: host, reach }) => kind !== 'allocator' || host !== undefined || reach !== 'model')
  )
    return { ...plan, budgets: plan.budgets.map((heads, l) => fill(heads, lengths[l])) };
  const all = fill(plan.budgets.flat(), lengths.flat());
  let at = 0;
  return { ...plan, budgets: lengths.map((heads) => all.slice(at, (at += heads.length))) };
}

/** Returns the note that bytes hold more slots than were counted, where a demotion does not say its shares. */
function unknownShares({ steps }: CompiledPolicy, { bytes, share }: Allowance): string | undefined {
  const unknown = steps.filter(({ kind, shares }) => kind === 'demotion' && !shares).map(({ name }) => `'${name}'`);
  return unknown.length > 0 && (bytes !== undefined || share?.includes('of'))
    ? `bytes were counted in the form of the cache, as ${unknown.join(' and ')} ${unknown.length > 1 ? 'declare' : 'declares'} no shares`
    : undefined;
}

/** Returns a copy that an allocator cannot change. */
const frozen = (rows: readonly (readonly number[])[]): readonly (readonly number[])[] =>
  Object.freeze(rows.map((row) => Object.freeze([...row])));

/** Options for running one event. */
export interface EventOptions {
  /** Wraps all steps; rows that it leaves inactive need no scores. */
  readonly wrap?: WrapSelectHook | undefined;
  /** Allowed row counts of its slots: a view may select per query head. */
  readonly wrappedRows?: (at: LayerContext) => readonly number[];
}

/** Records all steps of an event, and yields after each of them in each layer. */
export const pacedEvent = (
  policy: CompiledPolicy,
  layers: readonly EventLayer[],
  ops: Ops,
): PacedSteps<readonly DraftSelection[]> => pacedSteps(policy.steps, layers, ops, starting(layers, ops));

/**
 * Records all steps of an event at once; `readDecisions` reads the result.
 * @throws KvError naming the piece and layer
 */
export function runEvent(
  policy: CompiledPolicy,
  layers: readonly EventLayer[],
  ops: Ops,
  { wrap, wrappedRows = keptRows }: EventOptions = {},
): readonly DraftSelection[] {
  const start = starting(layers, ops);
  if (!wrap) return runSteps(policy.steps, layers, ops, start);
  return layers.map((layer, i) => {
    let done = start[i];
    const inner = (active?: Tensor): WrappedSelection => {
      done = runSteps(policy.steps, [layer], ops, [{ ...start[i], ...(active && { active }) }])[0];
      if (!done.kept || !done.scores)
        throw new KvError(wrap.name, `expected a policy that scores and selects inside it`);
      return { kept: done.kept, scores: done.scores };
    };
    const { at } = layer,
      from = { name: wrap.name, layer: at.layer, ops };
    return runGuarded(wrap.name, at.layer, () => {
      const made: unknown = readOnly(wrap.name, [{ ...cellOf(layer, ops, start[i], wrap), inner }], ([cell]) =>
        wrap.run(cell),
      );
      expectObject(from, 'kept slots', made);
      const { kept, state = new Map() } = made as ReturnType<WrapSelectHook['run']>;
      expectTensor(from, 'kept slots', kept, { rows: wrappedRows(at), dtype: 'u32' });
      expectState(from, at, wrap.needs, state);
      return { ...done, kept, state: new Map([...done.state, ...state]) };
    });
  });
}

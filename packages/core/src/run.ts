import { apportion } from './apportion.ts';
import {
  checkedBudgets,
  checkedPlan,
  checkedSlots,
  expectObject,
  expectState,
  expectTensor,
  guarded,
  keptRows,
} from './boundary.ts';
import { badNumber } from './cpu/slots.ts';
import { KvError } from './errors.ts';
import { wayOut } from './forced.ts';
import type { At, Check, Draft, Hook, Inner, Plan, Reach, Step, WrapSelectHook } from './atoms.ts';
import type { Ops } from './maths.ts';
import type { Backend } from './backend.ts';
import type { Piece, Policy } from './piece.ts';
import { isPiece, otherProtocol, PROTOCOL, readBy } from './piece.ts';
import { shown } from './option.ts';
import { expectAtoms, REACH } from './policy-boundary.ts';
import { readOnly } from './read-only.ts';
import { cellOf, pacedSteps, runSteps, starting } from './steps.ts';
import type { EventLayer, Paced } from './steps.ts';
import { sameSignal } from './signals.ts';
import type { AnySignal } from './signals.ts';
import type { Tensor } from './tensor.ts';

type HooksOf<A extends Hook['at']> = readonly Extract<Hook, { at: A }>[];

/** A policy taken apart: what an engine looks at. */
export interface Compiled {
  readonly label: string;
  /** The name for people: a method's name, else the label. */
  readonly called: string;
  readonly steps: readonly Step[];
  /** Signals of the event, each once. */
  readonly needs: readonly AnySignal[];
  /** The widest reach of its steps: `model` policies run after prefill, the others while it passes. */
  readonly reach: Reach;
  /** Some step wants the whole prompt before it. */
  readonly whole: boolean;
  /** It ends in kept slots, so events evict. */
  readonly evicts: boolean;
  /** Some allocator finds the size itself, so no budget has to be given. */
  readonly sizes: boolean;
  hooks<A extends Hook['at']>(at: A): HooksOf<A>;
  /** Slots forced in every head, by the declarations of the steps. */
  floor(slots: number, budget: number): number;
  /** What to change where that many are forced and the budget is smaller: the end of a sentence. */
  wayOut(slots: number, budget: number): string;
}

/** Signals of several lists, each once, in order. */
export const union = (...lists: readonly (readonly AnySignal[])[]): readonly AnySignal[] =>
  lists.flat().filter((s, i, all) => all.findIndex((t) => sameSignal(s, t)) === i);

export function compile(policy: Piece | Policy): Compiled {
  if (!isPiece(policy))
    throw new KvError(
      'policy',
      otherProtocol(policy, 'the policy') ??
        `expected a piece ({ protocol: ${PROTOCOL}, atoms, ... }), got ${typeof policy === 'string' ? readBy(policy) : shown(policy)}`,
    );
  expectAtoms(policy, policy.atoms);
  const steps = policy.atoms.filter((a): a is Step => a.at === 'event');
  const floor = (slots: number, budget: number): number =>
    Math.min(
      slots,
      steps.reduce((sum, s) => sum + floorOf(s, slots, budget), 0),
    );
  return {
    label: policy.label,
    called: policy.called ?? policy.label,
    steps,
    needs: union(...steps.map((s) => s.needs), ...policy.atoms.filter((a) => a.at === 'compact').map((a) => a.needs)),
    reach: REACH[Math.max(0, ...steps.map((s) => REACH.indexOf(s.reach)))],
    whole: steps.some((s) => s.whole),
    evicts: policy.to === 'kept',
    sizes: steps.some((s) => s.sizes),
    hooks: <A extends Hook['at']>(at: A) => policy.atoms.filter((a) => a.at === at) as unknown as HooksOf<A>,
    floor,
    wayOut: (slots, budget) =>
      wayOut(
        floor(slots, budget),
        steps.flatMap((s) => (floorOf(s, slots, budget) > 0 ? (s.forcers ?? [{ name: s.name, options: {} }]) : [])),
      ),
  };
}

function floorOf(step: Step, slots: number, budget: number): number {
  const floor: unknown = guarded(step.name, 0, () => step.floor(slots, budget));
  if (!Number.isSafeInteger(floor) || (floor as number) < 0)
    throw new KvError(step.name, `expected a whole number of slots as its floor, got ${shown(floor)}`);
  return floor as number;
}

/**
 * Budgets per layer and KV head before scores are known: the uniform start value through the policy's host allocators,
 * never above the slots present.
 *
 * @remarks Where an allocator that reads scores will share them out again, what a head is too short for goes to others,
 * of its layer or of the model as that allocator reaches: no slot of the total is lost because earlier events left
 * heads unequal.
 * @param asked what `budget` was before a share was rounded down
 */
export function planBudgets(
  policy: Compiled,
  budget: number,
  lengths: readonly (readonly number[])[],
  asked: number = budget,
): Plan {
  if (!Number.isInteger(budget) || budget < 0)
    throw new KvError('budget', `must be a whole number of slots per layer and KV head, at least 0, got ${budget}`);
  const most = Math.max(0, ...lengths.flat());
  let plan: Plan = {
    budgets: lengths.map((heads) => heads.map(() => budget)),
    lengths,
    asked,
    floor: policy.floor(most, budget),
    notes: [],
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
      guarded(step.name, 0, () => allot(given)),
    );
  }
  if (!scored)
    return { ...plan, budgets: plan.budgets.map((heads, l) => heads.map((b, g) => Math.min(b, lengths[l][g]))) };
  const fill = (budgets: readonly number[], caps: readonly number[]): number[] =>
    apportion(
      budgets,
      budgets.reduce((a, b) => a + b, 0),
      0,
      caps,
    );
  if (
    policy.steps.every(({ kind, plan: host, reach }) => kind !== 'allocator' || host !== undefined || reach !== 'model')
  )
    return { ...plan, budgets: plan.budgets.map((heads, l) => fill(heads, lengths[l])) };
  const all = fill(plan.budgets.flat(), lengths.flat());
  let at = 0;
  return { ...plan, budgets: lengths.map((heads) => all.slice(at, (at += heads.length))) };
}

/** A copy that an allocator cannot change. */
const frozen = (rows: readonly (readonly number[])[]): readonly (readonly number[])[] =>
  Object.freeze(rows.map((row) => Object.freeze([...row])));

/** What may stand around the steps of an event. */
export interface EventOptions {
  /** Stands around all steps: rows that it leaves out need no scores either. */
  readonly wrap?: WrapSelectHook | undefined;
  /** Rows of its slots: a view may show every query head its own. */
  readonly wrappedRows?: (at: At) => readonly number[];
}

/** Records all steps of an event, and gives way after each of them in each layer. */
export const pacedEvent = (policy: Compiled, layers: readonly EventLayer[], ops: Ops): Paced<readonly Draft[]> =>
  pacedSteps(policy.steps, layers, ops, starting(layers, ops));

/** Records all steps of an event at once; `settle` reads what came of it. */
export function runEvent(
  policy: Compiled,
  layers: readonly EventLayer[],
  ops: Ops,
  { wrap, wrappedRows = keptRows }: EventOptions = {},
): readonly Draft[] {
  const start = starting(layers, ops);
  if (!wrap) return runSteps(policy.steps, layers, ops, start);
  return layers.map((layer, i) => {
    let done = start[i];
    const inner = (active?: Tensor): Inner => {
      done = runSteps(policy.steps, [layer], ops, [{ ...start[i], ...(active && { active }) }])[0];
      if (!done.kept || !done.scores)
        throw new KvError(wrap.name, `expected a policy that scores and selects inside it`);
      return { kept: done.kept, scores: done.scores };
    };
    const { at } = layer,
      from = { name: wrap.name, layer: at.layer, ops };
    return guarded(wrap.name, at.layer, () => {
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

/** What an event decided, on the host. */
export interface Settled {
  /** Ascending slots, `[layer][kvHead]`. */
  readonly kept: readonly (readonly Uint32Array[])[];
  readonly budgets: readonly (readonly number[])[];
}
type Read = Awaited<ReturnType<Backend['read']>>;

/** The tensors that `settled` wants to see, in one read. */
export const toRead = (drafts: readonly Draft[]): readonly Tensor[] => [
  ...drafts.flatMap(({ checks }) => checks.map(({ bad }) => bad)),
  ...drafts.map(({ budgets }) => budgets),
  ...drafts.map(({ kept, budgets }) => kept ?? budgets),
];

/** What drafts decided, once they were read; `open` ones need no kept slots. @throws KvError, see `settle` */
export function settled(layers: readonly EventLayer[], drafts: readonly Draft[], read: Read, open = false): Settled {
  const checks = drafts.flatMap((d, i) => d.checks.map((c) => ({ columns: layers[i].at.slots, ...c })));
  expectPromises(
    checks.filter(({ late }) => !late),
    read.filter((_, i) => i < checks.length && !checks[i].late),
  );
  const budgets = drafts.map((_, i) => Array.from(read[checks.length + i].data));
  for (const [i, draft] of drafts.entries()) checkedBudgets(draft, layers[i].at.layer, budgets[i]);
  checkedTotal(layers, drafts, budgets);
  const kept = drafts.map((draft, i) => {
    const { at } = layers[i];
    if (!draft.kept && open) return [];
    if (!draft.kept)
      throw new KvError(
        'event',
        `layer ${at.layer} ended without kept slots, expected a policy that ends in a selector`,
      );
    const { data, shape, lengths } = read[checks.length + drafts.length + i];
    const [rows, slots] = shape;
    return Array.from({ length: at.selectRows }, (_, g) => {
      const row = Math.floor((g * rows) / at.selectRows);
      const count = lengths ? lengths[row] : slots;
      const limit = budgets[i][Math.floor((g * budgets[i].length) / at.selectRows)];
      if (count > slots)
        throw new KvError(
          `${draft.selectedBy ?? 'event'}, layer ${at.layer}`,
          `expected at most ${slots} kept slots in row ${row}, got ${count}`,
        );
      if (count > limit && draft.forced)
        throw new KvError(
          'budget',
          `layer ${at.layer}, head ${g}: ${count} slots are forced, but the budget is ${limit}: ${wayOut(count, draft.forcedBy)}`,
        );
      if (count > limit)
        throw new KvError(
          `${draft.selectedBy ?? 'event'}, layer ${at.layer}`,
          `expected at most the ${limit} slots of its budget in head ${g}, got ${count}`,
        );
      const set = (data as Uint32Array).slice(row * slots, row * slots + count);
      checkedSlots(draft, at, set);
      return set;
    });
  });
  expectPromises(
    checks.filter(({ late }) => late),
    read.filter((_, i) => i < checks.length && checks[i].late),
  );
  return { kept, budgets };
}

/** @throws KvError for the first promise that its numbers, once they were read, do not keep. */
export function expectPromises(checks: readonly Check[], read: Read): void {
  for (const [i, check] of checks.entries()) {
    const { piece, layer, want, what = 'scores', columns = 1 } = check,
      [bad] = read[i].data;
    if (bad > 0)
      throw new KvError(
        `${piece}, layer ${layer}`,
        `${what} must be ${want}, got ${brokenBy(check)} in row ${Math.floor((bad - 1) / columns)}, slot ${(bad - 1) % columns}`,
      );
  }
}

/** What breaks a promise: the number itself where that was checked, on the host. */
function brokenBy({ bad, want, late }: Check): string {
  if (!want.includes('finite')) return 'another number';
  const number = late ? undefined : badNumber(bad);
  if (number !== undefined) return String(Number(number.toPrecision(7)));
  return want === 'finite' ? 'NaN or an infinity' : 'NaN, an infinity or a negative number';
}

/** Allocators that read scores share out what was asked for, and no more. */
function checkedTotal(layers: readonly EventLayer[], drafts: readonly Draft[], budgets: Settled['budgets']): void {
  const by = drafts.find((draft) => draft.allottedBy)?.allottedBy;
  if (!by?.bounded) return;
  const sum = (all: readonly number[]): number => all.reduce((a, b) => a + b, 0);
  const asked = sum(layers.map((layer) => sum(layer.budgets)));
  const got = sum(budgets.map((rows, i) => (sum(rows) * layers[i].budgets.length) / rows.length));
  if (got > asked) throw new KvError(by.name, `expected at most the ${asked} slots that were asked for, got ${got}`);
}

/**
 * The one read of an event: checks, budgets and kept slots.
 *
 * @throws KvError before anything is compacted: a score that is not finite (or below 0 where weights are promised),
 * budgets or slots that are none, or more forced slots than budget; each names piece, layer and slot.
 */
export const settle = async (
  backend: Pick<Backend, 'read'>,
  layers: readonly EventLayer[],
  drafts: readonly Draft[],
): Promise<Settled> => settled(layers, drafts, await backend.read(toRead(drafts)));

import type { BudgetShare } from './budget.ts';
import { KvError } from '../tensor/errors.ts';
import type { Ops } from '../tensor/maths.ts';
import { sameSignal } from './signals.ts';
import type { AnySignal, Signal } from './signals.ts';
import type { Tensor } from '../tensor/tensor.ts';
import type { LevelShares } from './levels.ts';
import type { ForcedEnds, LayerContext } from './layer-context.ts';
import type { ViewLoop } from './view-loop.ts';

export type { ForcedEnds, LayerContext };

/** A partition of slots into contiguous blocks. */
export interface Units {
  /** Unit of every slot, u32 `[1 | G, n]`, non-decreasing in each row. */
  readonly of: Tensor;
  /** Unit numbers are 0 .. count - 1. */
  readonly count: number;
  /** Unit of every position, on the host; present if the units were cut by position. */
  readonly byPosition?: Uint32Array;
}

/** What one layer's event has computed so far. */
export interface DraftSelection {
  /**
   * f32 `[H | G | 1, n]`; higher = keep. The number of rows tells whether they are per query head, per KV head or
   * shared.
   */
  readonly scores?: Tensor;
  /** 1 = must stay, counted inside the budget. */
  readonly forced?: Tensor;
  /** 1 = must go. */
  readonly banned?: Tensor;
  /** Slots to keep per row, whole numbers in f32, `[selectRows, 1]`. */
  readonly budgets: Tensor;
  /** f32 `[selectRows, 1]`: 0 = this row needs no selection now. */
  readonly active?: Tensor;
  /** The partition of slots, once a unit has cut it. */
  readonly units?: Units;
  /** f32 `[rows, units.count]`. */
  readonly unitScores?: Tensor;
  /** u32 `[G | 1, n]`, ragged, ascending. */
  readonly kept?: Tensor;
  /**
   * Level of every slot, f32 `[G | 1, n]`: its index among `LEVELS`, 0 the finest. Absent: all at the sequence's own.
   * Those of slots that are not kept do not count.
   */
  readonly levels?: Tensor;
  /** Piece that gave the levels. */
  readonly levelledBy?: string;
  /** New values of piece state, by signal id. */
  readonly state: ReadonlyMap<string, Tensor>;
  /** Read together with the counts at the end of the event. */
  readonly checks: readonly Check[];
  /** Pieces that force slots, with their options, each once. */
  readonly forcedBy?: readonly string[];
  /** Piece that allotted the budgets, and whether their sum is bounded by what was asked for. */
  readonly allottedBy?: { readonly name: string; readonly bounded: boolean };
  /** Budgets as allotted, before a share was raised to hold all forced slots. */
  readonly allotted?: Tensor;
  /** Label of the selector that chose `kept`. */
  readonly selectedBy?: string;
}

/** A promise of a piece about its numbers. */
export interface Check {
  /** u32 `[1]`: 0, or 1 + the flat index of the first number that breaks the promise. */
  readonly bad: Tensor;
  readonly piece: string;
  readonly layer: number;
  /** The promise in words, such as 'finite and at least 0'. */
  readonly want: string;
  /** Name of the numbers. @defaultValue 'scores' */
  readonly what?: string;
  /** What breaks the promise, where it is no number. */
  readonly got?: string;
  /** Numbers per row of the checked tensor. @defaultValue the slots */
  readonly columns?: number | undefined;
  /** Concerns what happens after slots were chosen: reported only if no other check fails. */
  readonly late?: boolean;
  /** It is no promise: the event goes on, and its notes say this sentence. */
  readonly note?: string;
}

/** One layer in an event. */
export interface StepInput {
  /** Where the step runs. */
  readonly at: LayerContext;
  /** Operations of the backend that holds the tensors. */
  readonly ops: Ops;
  /** Returns the value of a signal that the step declared in `needs`. */
  read<V>(signal: Signal<string, V>): V;
  /** What the steps before it have decided for this layer. */
  readonly draft: DraftSelection;
  /** Results of earlier layers, for steps whose input is the same in several. */
  readonly stepCache?: StepResults | undefined;
  /** Shares numbers of slots of the layers' rows out, for a demotion after allocators. */
  allot?(counts: readonly Tensor[]): readonly Tensor[];
  /** Object whose getters report signals that a piece reads undeclared. */
  readonly undeclared?: object;
}
/** Results of earlier runs of steps. */
export interface StepResults {
  /** Returns the earlier result of a step if the cell gives it the same input, else calls `run`. */
  reuse(step: Step, cell: StepInput, run: (cell: StepInput) => readonly DraftSelection[]): readonly DraftSelection[];
}

/** Budgets of all layers and KV heads, on the host, before the scores are known. */
export interface BudgetPlan {
  /** Whole slots, `[L][G]`. */
  readonly budgets: readonly (readonly number[])[];
  /** Slots present, `[L][G]`. */
  readonly lengths: readonly (readonly number[])[];
  /** Slots per head that were asked for, before a share of the tokens was rounded down. */
  readonly requested?: number;
  /** Slots that the policy's own pieces force in every head. */
  readonly floor: number;
  /** Set if the budgets come from a share. */
  readonly above?: ForcedAboveShare;
  /** Notes for the report, such as a fallback or a rounding. */
  readonly notes: readonly string[];
}

/** Lets slots that are forced beyond a budget stay, if the budget is a share. */
export interface ForcedAboveShare {
  /** The budget that was asked for. */
  readonly share: BudgetShare;
  /** The most that may be forced in a head; beyond that the event fails. */
  readonly forced: number;
}

/** How far a step reads: one head, all heads of a layer, or all layers. */
export type Reach = 'head' | 'layer' | 'model';
/** What a step does in an event. */
export type StepKind = 'scorer' | 'transform' | 'unit' | 'allocator' | 'selector' | 'demotion';
interface AtomBase {
  /** The piece's name, for errors. */
  readonly name: string;
  /** Its name with the options that differ from their defaults. */
  readonly label: string;
  /** Signals that it reads. */
  readonly needs: readonly AnySignal[];
  /** What runs instead inside a view, in engines with memory of their own. */
  readonly loop?: ViewLoop;
}

/**
 * A step of the event. `run` maps the drafts of the layers it is given (one, or all for reach `model`) to new drafts.
 */
export interface Step extends AtomBase {
  readonly at: 'event';
  readonly kind: StepKind;
  /** How far it reads. A step of reach `model` runs once, with the cells of all layers. */
  readonly reach: Reach;
  /** Cannot run block-wise: needs the whole prompt. */
  readonly needsFullPrompt: boolean;
  /**
   * Returns the maximum number of slots that it forces in a head, given the slots present and the budget asked for.
   * @defaultValue those of `ends`
   */
  minSlots?(slots: number, budget: number): number;
  /** Returns the first and last positions that it forces in every head whatever the text is, at this budget. */
  ends?(budget: number): ForcedEnds;
  /** Further positions that it forces in every head, ordered and disjoint. */
  readonly spans?: readonly PositionSpan[];
  /** It may force more than its floor, depending on the text. */
  readonly open?: boolean;
  /** The pieces that force slots, itself or those inside it, with their options. @defaultValue its name */
  readonly forcers?: readonly string[];
  /** Returns the drafts of the layers that it is given, in the same order. */
  run(cells: readonly StepInput[]): readonly DraftSelection[];
  /** Shares of the kept slots at each level, for demotions that know them before the event. */
  readonly shares?: LevelShares;
  /** It promises scores of at least 0. */
  readonly weights?: boolean;
  /** A transform that does not change which slots any top-k keeps. */
  readonly monotone?: boolean;
  /** An allocator that chooses the size itself. */
  readonly choosesBudget?: boolean;
  /** An allocator whose sum may differ from what was asked for. */
  readonly approximate?: boolean;
  /** An allocator that leaves budgets unchanged, and forces or bans slots within them. */
  readonly forces?: boolean;
  /** An allocator that shares no levels out, and so may not stand after a selector. */
  readonly beforeSelector?: boolean;
  /** Maps budgets to budgets on the host, for allocators that need no scores. */
  plan?(plan: BudgetPlan): BudgetPlan;
}

/** Runs after every decoded token: accumulators, decay, moving averages. Returns new state by signal id. */
export interface StepHook extends AtomBase {
  readonly at: 'step';
  readonly reach: Reach;
  /** Returns the new state of each layer, by signal id. */
  run(cells: readonly StepInput[]): readonly ReadonlyMap<string, Tensor>[];
}
/**
 * What stays visible: `mask` 1 = visible, f32 `[H | G | 1, n]`; or sinks plus everything from `lower(t)` on, for a
 * query at position t.
 */
export interface ViewBounds {
  /** 1 = visible, f32 `[H | G | 1, n]`. */
  readonly mask?: Tensor;
  /** First positions that stay visible, with `lower`. */
  readonly sinks?: number;
  /** Returns the lowest position that a query at position t sees. */
  lower?(t: number): number;
  /** New values of piece state, by signal id. */
  readonly state?: ReadonlyMap<string, Tensor>;
  /** What the mask was chosen from, for evaluation: scores, forced slots, and which rows made a choice. */
  readonly chosen?: {
    readonly scores: Tensor;
    readonly forced?: Tensor | undefined;
    readonly active?: Tensor | undefined;
  };
  /** Promises about the numbers that the mask was chosen from; read only where that is free. */
  readonly checks?: readonly Check[];
}
/** A view whose pieces all have loops. */
export interface ViewChoice {
  /** Loops of the pieces inside, in their order, that of a piece that wraps them last. */
  readonly loops: readonly ViewLoop[];
  /** Slots visible per query head. */
  readonly budget: number;
  /** Returns whether slots may be hidden: not in dense layers, nor while all slots fit, where no piece has state. */
  acts(at: LayerContext): boolean;
}
/** Hides slots for one step and evicts nothing; views intersect; the current token is always visible. */
export interface ViewHook extends AtomBase {
  readonly at: 'view';
  /** The phase in which it hides slots. */
  readonly during: 'prefill' | 'decode' | 'both';
  /** What chooses slots in engines with memory of their own, where every piece inside has a loop. */
  readonly chooses?: ViewChoice;
  /** Returns what the current query may see in this layer. */
  run(cell: StepInput): ViewBounds;
}
/**
 * Prefill only: positions from `sinks` up to `below` (exclusive) keep the previous layer's hidden state. Their keys and
 * values are the layer's projections of it; with `copies` they are the previous layer's, too.
 */
export interface FreezeHook extends AtomBase {
  readonly at: 'freeze';
  /** Frozen tokens take the previous layer's keys and values. @defaultValue false */
  readonly copies?: boolean;
  /** Returns the range of positions to freeze in a layer. */
  run(at: LayerContext): { readonly sinks: number; readonly below: number };
}
/** What replaces a layer's own numbers before compaction; rows that are not kept are dropped after it. */
export interface Replacement {
  /** `[G, n, d]` */
  readonly keys?: Tensor | undefined;
  /** `[G, n, d]` */
  readonly values?: Tensor | undefined;
  /** What each slot adds to its logit from then on, `[G, n]`, 0 for nothing. */
  readonly biases?: Tensor | undefined;
}
/** Terms of attention around an event. */
export interface AttentionTerms {
  readonly before: AttentionTerm;
  readonly after: AttentionTerm;
}
/** Gives new keys, values and biases before compaction. */
export interface CompactHook extends AtomBase {
  readonly at: 'compact';
  /**
   * The kept slots take consecutive rotary positions from 0 on, and the next token follows them; pieces still see the
   * original positions. @defaultValue false
   */
  readonly movesTogether?: boolean;
  /** It may give biases. @defaultValue false */
  readonly givesBiases?: boolean;
  run(
    cell: StepInput & {
      readonly kept: Tensor;
      /** Returns the term in these queries' attention before and after the event; absent where the policy adds none. */
      readonly terms?: ((rows: AttendingQueries) => AttentionTerms) | undefined;
    },
  ): Replacement;
}
/** Folds the slots that leave into state, before compaction. */
export interface EvictHook extends AtomBase {
  readonly at: 'evict';
  /** Returns new state by signal id. */
  run(cell: StepInput & { readonly kept: Tensor }): ReadonlyMap<string, Tensor>;
}
/** Some queries of a layer. */
export interface AttendingQueries {
  /** After rotary embedding, `[H, m, d]`. */
  readonly queries: Tensor;
  /** Their positions, u32 `[1, m]`. */
  readonly positions: Tensor;
}
/**
 * What takes part in the attention of each query in addition to the slots, as one more slot would: a logit, and a value of its
 * own.
 */
export interface AttentionTerm {
  /** ln of its mass, which is e^logit for a slot, f32 `[H, m]`; -1e30 or less for nothing. */
  readonly masses: Tensor;
  /** f32 `[H, m, d]` */
  readonly values: Tensor;
}
/** Adds a term to the attention of a layer, once states that it reads have been written. */
export interface AttendHook extends AtomBase {
  readonly at: 'attend';
  /** Returns the term of these queries. */
  run(cell: StepInput & { readonly rows: AttendingQueries }): AttentionTerm;
}
/**
 * When events run. `block`: prefill in blocks of m tokens, each followed by an event; `every`: an event every c decoded
 * tokens.
 */
export interface CadenceHook extends AtomBase {
  readonly at: 'cadence';
  readonly block?: number;
  readonly every?: number;
}
/** The result of the policy inside a wrap: kept slots, and the scores that chose them. */
export interface WrappedSelection {
  readonly kept: Tensor;
  readonly scores: Tensor;
}
/**
 * Wraps the policy inside a view: reuses a selection, or calls `inner`, where `active` (f32 `[rows, 1]`) says which
 * rows need a new one.
 */
export interface WrapSelectHook extends AtomBase {
  readonly at: 'wrapSelect';
  run(cell: StepInput & { inner(active?: Tensor): WrappedSelection }): {
    readonly kept: Tensor;
    readonly state?: ReadonlyMap<string, Tensor>;
  };
}
/** Positions `[from, to)` of a text. */
export type PositionSpan = readonly [from: number, to: number];
/** Positions that stay in every layer and KV head, whatever the policy is. */
export interface ProtectHook extends AtomBase {
  readonly at: 'protect';
  /** Ordered and disjoint. */
  readonly spans: readonly PositionSpan[];
}
/** A part of a policy that acts outside the steps of an event. */
export type Hook =
  | StepHook
  | ViewHook
  | FreezeHook
  | CompactHook
  | EvictHook
  | AttendHook
  | CadenceHook
  | WrapSelectHook
  | ProtectHook;
/** One step or hook: `compose` joins pieces by joining their lists of atoms. */
export type Atom = Step | Hook;

const SINGLE: ReadonlySet<Atom['at']> = new Set(['freeze', 'compact', 'evict', 'attend', 'cadence', 'wrapSelect']);

/**
 * Whether two step hooks are the same one, added twice, say by a scorer and by an allocator: they write the same state.
 */
const again = (a: Atom, b: Atom): boolean =>
  a.at === 'step' &&
  b.at === 'step' &&
  a.label === b.label &&
  a.needs.length === b.needs.length &&
  a.needs.every((s, i) => sameSignal(s, b.needs[i]));

/**
 * Returns the atoms with equal step hooks once.
 * @throws KvError for a second atom of a kind that a policy can have only once.
 */
export function mergeHooks(where: string, given: readonly Atom[]): readonly Atom[] {
  const atoms = given.filter((a, i) => !given.slice(0, i).some((b) => again(a, b)));
  for (const sort of SINGLE) {
    const found = atoms.filter((a) => a.at === sort);
    if (found.length > 1)
      throw new KvError(
        'compose',
        `'${where}' has two pieces of the sort '${sort}' (${found.map((a) => a.label).join(', ')}), expected at most one`,
      );
  }
  const moves = atoms.find((a) => a.at === 'compact' && a.movesTogether),
    attends = atoms.find(({ at }) => at === 'attend');
  if (moves && attends)
    throw new KvError(
      'compose',
      `'${where}' moves kept slots together (${moves.label}), expected them where they were, as '${attends.label}' folds slots at their positions`,
    );
  return atoms;
}

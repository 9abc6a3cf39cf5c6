import type { DeclarationFields } from './declare.ts';
import { expectSignals } from './expect-declared.ts';
import type { ForcedEnds, LayerContext, Reach, Units } from './atoms.ts';
import type { Mask, Ops } from '../tensor/maths.ts';
import type { LevelShares } from './levels.ts';
import type { Options, ResolvedOptions } from './option.ts';
import type { HookPiece } from './piece.ts';
import type { AnySignal, Signal } from './signals.ts';
import type { Tensor } from '../tensor/tensor.ts';
import type { ViewLoop } from './view-loop.ts';

// Inputs of an equation.

type Named<S> = S extends readonly AnySignal[]
  ? { readonly [X in S[number] as X['as']]: X extends Signal<string, infer V> ? V : never }
  : never;
type Keys<U> = U extends unknown ? keyof U : never;
type Get<U, K> = U extends unknown ? (K extends keyof U ? U[K] : never) : never;
/** Every signal under its name; optional where options decide whether it is read. */
export type SignalReaders<S, U = Named<S>> = { readonly [K in keyof U]: U[K] } & {
  readonly [K in Exclude<Keys<U>, keyof U>]?: Get<U, K>;
};
/** Operations, and where the step runs. */
export interface StepContext {
  /** Operations; their results are handles, which a piece never reads. */
  readonly ops: Ops;
  /** Layer, head counts, lengths and budget. */
  readonly at: LayerContext;
  /** Rows inside a view that need scores, f32 `[rows, 1]`; absent: all. Scores of other rows are ignored. */
  readonly active?: Tensor | undefined;
}
/** Scores `[H | G | 1, n]`, budgets `[selectRows, 1]` and masks left by the pieces before. */
export interface WithScores {
  /** f32 `[H | G | 1, n]`, higher stays. */
  readonly scores: Tensor;
  /** Slots to keep per row, whole numbers in f32, `[selectRows, 1]`. */
  readonly budgets: Tensor;
  /** Slots that must stay, counted inside the budget. */
  readonly forced: Mask;
  /** Slots that must go. */
  readonly banned: Mask;
}
/** The same on selection rows: means of scores and unions of masks over each GQA group. */
export interface WithRows extends WithScores {
  /** Scores before their rows were reduced; at least as many rows as `scores`. */
  readonly rawScores: Tensor;
}
/** Input of a unit transform: the partition, and a score for each unit. */
export interface WithUnits extends WithScores {
  /** The partition of the slots. */
  readonly units: Units;
  /** f32 `[rows, units.count]`. */
  readonly unitScores: Tensor;
}
/** Input of a selector. Unit scores are reduced to the same rows. */
export interface SelectorContext extends WithRows {
  /** The partition of the slots, if a unit has cut one. */
  readonly units: Units | undefined;
  /** f32 `[rows, units.count]`, reduced to the rows of the selection. */
  readonly unitScores: Tensor | undefined;
}
/** Input of a demotion. */
export interface DemotionContext extends Omit<WithRows, 'rawScores'> {
  /** 1 at the kept slots, f32 in the shape of `scores`. */
  readonly kept: Tensor;
  /**
   * Shares numbers of slots out by the allocators between the selector and the demotion; without one they stay. For each
   * layer (all of `acrossLayers`, or one) a number for each row, `[rows, 1]`, and so is the result.
   */
  readonly allot: (counts: readonly Tensor[]) => readonly Tensor[];
}

// Results of an equation.

export type NewState = { readonly state?: Readonly<Record<string, Tensor>> | undefined };
export type NewMasks = { readonly forced?: Mask | undefined; readonly banned?: Mask | undefined };
/** A sentence for the notes of an event, said if one of these numbers is below 0. */
export interface Note {
  /** f32 `[rows, columns]`. */
  readonly unless: Tensor;
  readonly says: string;
}
/** Notes on an event, each told once. */
export type NewNotes = { readonly notes?: readonly Note[] | undefined };
/** Result of a scorer or transform: scores `[H | G | 1, n]`, alone or with masks, new state and notes. */
export type Scores = Tensor | ({ readonly scores: Tensor } & NewMasks & NewState & NewNotes);
/** Result of a unit: the partition, and the scores of the slots. */
export type UnitCut = { readonly units: Units; readonly scores: Tensor };
/** Result of a unit transform: a score for each unit, `[rows, units.count]`, alone or with new state. */
export type UnitScores =
  | Tensor
  | ({
      readonly unitScores: Tensor;
      /** Releases all forced slots. @defaultValue false */
      readonly release?: boolean;
    } & NewState);
/** Result of an allocator that reads scores: budgets `[selectRows, 1]`, masks, new state, notes. What is absent stays. */
export type AllocatorOutput = { readonly budgets?: Tensor } & NewMasks & NewState & NewNotes;

// Fields of a declaration.

export type OfOptions<O extends Options, T> = T | ((options: ResolvedOptions<O>) => T);
export interface PieceDeclaration<O extends Options, S extends readonly AnySignal[], C, X>
  extends DeclarationFields<O> {
  /** Signals that it reads. */
  readonly needs?: OfOptions<O, S>;
  /** Returns the first and last positions that it forces in every head, whatever the text is, at a budget. */
  readonly ends?: (options: ResolvedOptions<O>, budget: number) => ForcedEnds;
  /**
   * Returns the maximum number of slots that it forces in a head, from the slots present and the budget asked for.
   * @defaultValue those of `ends`
   */
  readonly minSlots?: (options: ResolvedOptions<O>, slots: number, budget: number) => number;
  /** It may force more slots than its floor, depending on the text. @defaultValue false */
  readonly open?: OfOptions<O, boolean>;
  /** It cannot run block-wise: it needs the whole prompt. @defaultValue false */
  readonly needsFullPrompt?: boolean;
  /** A transform that does not change which slots any top-k keeps. @defaultValue false */
  readonly monotone?: boolean;
  /**
   * An allocator that chooses the size itself: its event runs even if every head is within its budget.
   * @defaultValue false
   */
  readonly choosesBudget?: boolean;
  /** An allocator whose sum only approximates what was asked for, as in its paper. @defaultValue false */
  readonly approximate?: boolean;
  /** An allocator that shares no levels out, and so may not stand after a selector. @defaultValue false */
  readonly beforeSelector?: boolean;
  /** Returns the shares of the kept slots at each level, for demotions that know them before the event. */
  readonly shares?: (options: ResolvedOptions<O>) => LevelShares;
  /** Further hooks that are added to the policy. */
  readonly hooks?: (options: ResolvedOptions<O>) => readonly HookPiece[];
  /**
   * Computes a value once over all the layers of `reach`. Each layer gets it as `acrossLayers`, and its own `index`
   * among them.
   */
  readonly acrossLayers?: (layers: readonly (StepContext & SignalReaders<S> & C)[], options: ResolvedOptions<O>) => X;
  /** @defaultValue 'model' with `acrossLayers`, else 'layer' */
  readonly reach?: OfOptions<O, Reach>;
  /** Returns what runs instead of the equation inside a view, if there is a loop for these options. */
  readonly loop?: (options: ResolvedOptions<O>) => ViewLoop | undefined;
}
/** The equation of a piece. */
export type Run<O extends Options, S, C, X, R> = (
  ctx: StepContext & SignalReaders<S> & C & { readonly acrossLayers: X; readonly index: number },
  options: ResolvedOptions<O>,
) => R;

export const ofOptions = <O extends Options, T>(x: OfOptions<O, T>, o: ResolvedOptions<O>): T =>
  typeof x === 'function' ? (x as (options: ResolvedOptions<O>) => T)(o) : x;
/** Returns the signals that a declaration reads with these options. @throws KvError as `expectSignals` */
export const needsOf = <O extends Options>(
  name: string,
  { needs = [] }: { readonly needs?: OfOptions<O, readonly AnySignal[]> | undefined },
  options: ResolvedOptions<O>,
): readonly AnySignal[] => expectSignals(name, ofOptions(needs, options));

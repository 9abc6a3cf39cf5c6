import type { Atom } from './atoms.ts';
import { excerpt } from '../text/policy-calls.ts';

/** The protocol of pieces that this core supports: cores of one protocol run each other's pieces. */
export const PROTOCOL = 1;

/** What a draft holds so far. Weights are scores of at least 0. */
export type Phase = 'start' | 'scores' | 'weights' | 'units' | 'kept';
/** The phases in which a draft has a score for each slot. */
export type ScorePhase = 'scores' | 'weights';
export const PHASES: readonly Phase[] = ['start', 'scores', 'weights', 'units', 'kept'];

/**
 * A partial map on the draft: defined on the phases `from`, leaving phase `to`. Recognised by `protocol`, not by class.
 */
export interface Piece<F extends Phase = Phase, T extends Phase | 'same' = Phase | 'same', N extends string = string> {
  /** Version of core's protocol. */
  readonly protocol: typeof PROTOCOL;
  /** Phases on which it is defined. */
  readonly from: readonly F[];
  /** Phase that it leaves; `'same'` if it leaves the phase it found. */
  readonly to: T;
  /** Names of the parts without options: `snapkv ∘ caote`. */
  readonly name: N;
  /** Names with options, which can be parsed back: `snapkv(window=32) ∘ caote`. */
  readonly label: string;
  /** A method's name with options, if the piece is that method alone. */
  readonly methodName?: string;
  /** Its steps and hooks, in order. */
  readonly atoms: readonly Atom[];
}
/** A piece of any kind. */
export type AnyPiece = Piece<any, any, any>;

/** A piece that changes nothing: the identity of `compose`. */
export type IdentityPiece = Piece<Phase, 'same', ''>;
/** A piece that gives every slot a score; higher stays. */
export type Scorer<N extends string = string> = Piece<'start', 'scores', N>;
/** A scorer of weights: scores of at least 0. */
export type WeightScorer<N extends string = string> = Piece<'start', 'weights', N>;
/** A piece that turns scores into other scores. */
export type Transform<N extends string = string> = Piece<ScorePhase, 'scores', N>;
/** A transform that maps weights to weights and scores to scores. */
export type ScoreTransform<N extends string = string> = Piece<ScorePhase, 'same', N>;
/** A transform whose result is at least 0 for any input. */
export type Normaliser<N extends string = string> = Piece<ScorePhase, 'weights', N>;
/** A transform that needs weights and leaves weights. */
export type WeightTransform<N extends string = string> = Piece<'weights', 'weights', N>;
/** A piece that cuts the slots into units, which are kept or dropped whole. */
export type Unit<N extends string = string> = Piece<ScorePhase, 'units', N>;
/** A piece that changes the scores of units. */
export type UnitTransform<N extends string = string> = Piece<'units', 'units', N>;
/** A piece that shares the budget out over layers and KV heads. */
export type Allocator<N extends string = string> = Piece<'start' | ScorePhase | 'units', 'same', N>;
/** An allocator that reads scores. */
export type ScoreAllocator<N extends string = string> = Piece<ScorePhase | 'units' | 'kept', 'same', N>;
/** A piece that chooses the slots to keep. */
export type Selector<N extends string = string> = Piece<ScorePhase | 'units', 'kept', N>;
/** A piece that says at which level the kept slots are stored. */
export type Demotion<N extends string = string> = Piece<'kept', 'kept', N>;
/** A hook, which acts outside the event: hides, freezes, schedules, accumulates. */
export type HookPiece<N extends string = string> = Piece<Phase, 'same', N>;
/** A hook that hides slots from a query and evicts nothing. */
export type ViewPiece<N extends string = string> = HookPiece<N>;
/** What an engine runs: a piece that ends in kept slots, or that only hides, freezes or schedules. */
export type Policy = Piece<'start', 'kept'> | Piece<Phase, 'same'>;

type From<A extends AnyPiece> = A['from'][number];
type Out<A extends AnyPiece> = A['to'] extends 'same' ? From<A> : A['to'];
type Fits<A extends AnyPiece, B extends AnyPiece> = [Out<A> & From<B>] extends [never]
  ? false
  : A['to'] extends 'same'
    ? true
    : [A['to']] extends [From<B>]
      ? true
      : false;

export const HAS = {
  start: 'no scores yet',
  scores: 'scores that may be negative',
  weights: 'weights (scores of at least 0)',
  units: 'unit scores',
  kept: 'kept slots',
} as const;
type Has = typeof HAS;
/** Advice for scores where weights are needed. */
export const TO_WEIGHTS =
  ': put softmax or minMax between them, or declare with weightScorer() what is always at least 0';
/** Advice where kept slots are needed. */
export const TO_KEPT = ': put a selector such as topK between them';
export const NEEDS = {
  start: 'an empty draft',
  scores: 'scores',
  weights: 'weights (scores of at least 0)',
  units: 'unit scores',
  kept: 'kept slots',
} as const;
type Needs = typeof NEEDS;
/** The minimum that a piece needs, in words: a piece that accepts scores also accepts weights and, perhaps, units. */
type Asks<P extends Phase> = 'scores' extends P ? 'scores' : Needs[P];

type Why<A extends AnyPiece, B extends AnyPiece> = [From<B>] extends ['start']
  ? ['start' & From<A>] extends [never]
    ? `'${A['name']}' reads scores, but the scorer '${B['name']}' stands after it: scorers come first`
    : Out<A> extends 'kept'
      ? `'${B['name']}' is a scorer after '${A['name']}', which already chose what to keep: scorers come first`
      : `'${B['name']}' is a second scorer after '${A['name']}': join scorers with sum(), max() or weighted()`
  : 'start' extends From<B>
    ? `'${B['name']}' shares slots out before scores are read: put it before the selector, not after '${A['name']}'`
    : `'${B['name']}' needs ${Asks<From<B>>}, but '${A['name']}' before it leaves ${Has[Out<A>]}${[
        From<B>,
        Out<A>,
      ] extends ['weights', 'scores']
        ? typeof TO_WEIGHTS
        : [From<B>] extends ['kept']
          ? typeof TO_KEPT
          : ''}`;

type Named<A extends AnyPiece, B extends AnyPiece> = A['name'] extends ''
  ? B['name']
  : B['name'] extends ''
    ? A['name']
    : `${A['name']} ∘ ${B['name']}`;
type Join<A extends AnyPiece, B extends AnyPiece> = A['to'] extends 'same'
  ? Piece<From<A> & From<B>, B['to'], Named<A, B>>
  : Piece<From<A>, B['to'] extends 'same' ? A['to'] : B['to'], Named<A, B>>;

/** The arguments, except that the first one that does not fit is replaced by an error sentence. */
export type CheckedPieces<P extends readonly unknown[], Acc extends AnyPiece = IdentityPiece> = P extends readonly [
  infer H extends AnyPiece,
  ...infer R,
]
  ? Fits<Acc, H> extends true
    ? [H, ...CheckedPieces<R, Join<Acc, H>>]
    : [Why<Acc, H>, ...R]
  : [];
export type ComposedPiece<
  P extends readonly unknown[],
  Acc extends AnyPiece = IdentityPiece,
> = number extends P['length']
  ? Piece
  : P extends readonly [infer H extends AnyPiece, ...infer R]
    ? ComposedPiece<R, Join<Acc, H>>
    : Acc;

/** Whether a value is a piece of this protocol. */
export const isPiece = (value: unknown): value is Piece =>
  typeof value === 'object' &&
  value !== null &&
  (value as Piece).protocol === PROTOCOL &&
  Array.isArray((value as Piece).atoms);

/** Returns the end of the error sentence for a text where a piece was expected. */
export const readBy = (text: string): string =>
  `the text ${excerpt(text)}: policy(${JSON.stringify(text.length > 40 ? '…' : text)}) of @kv/policies makes a policy of it`;

/** Returns advice about a piece, or a description of pieces, of another protocol; undefined if it is of this one. */
export function otherProtocol(value: unknown, name: string): string | undefined {
  const { protocol } = (typeof value === 'object' && value !== null ? value : {}) as { readonly protocol?: unknown };
  if (typeof protocol !== 'number' || protocol === PROTOCOL) return undefined;
  const update = protocol > PROTOCOL ? '@kv/core' : `the package that brings '${name}'`;
  return `'${name}' speaks protocol ${protocol} of pieces and this @kv/core protocol ${PROTOCOL}: update ${update}`;
}

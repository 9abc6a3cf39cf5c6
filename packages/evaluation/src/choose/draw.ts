import { compose, entries, KvError, lookUp } from '@kv/core';
import { mulberry } from '@kv/core/shared';
import type { AnyFactory, AnyPiece, AnyScorer, Option, Phase, Piece, Registry } from '@kv/core';

/** Kinds of pieces after the scorer, in the order of a composition, and how often a drawn policy has one. */
const PLACES: readonly (readonly [kind: string, often: number])[] = [
  ['transform', 0.4],
  ['allocator', 0.5],
  ['unit', 0.4],
  ['selector', 1],
  ['demotion', 0.25],
];
/** How often a scorer is a weighted sum of two, and an option is not its default. */
const TWO = 0.2,
  OTHER = 0.3;

/**
 * Yields policies that are drawn from the algebra, without end: in turns a method or scorer of the registry with options
 * other than its defaults, and a composition of pieces that fit by their phases. The same seed gives the same policies;
 * one may come again.
 */
export function* drawnPolicies(known: Registry, seed: number): Generator<string> {
  const random = mulberry(seed),
    factories = entries(known).map(({ factory }) => factory),
    named = factories.filter(
      ({ description: { kind, takes, options } }) =>
        (kind === 'method' || (kind === 'scorer' && takes === 'nothing')) && !('seed' in options),
    ),
    scorers = named.filter(({ description }) => description.kind === 'scorer');
  while (true) {
    const changed = madeOf(() => pieceOf(pick(named, random)));
    if (changed) yield textOf(changed);
    const composed = madeOf(composition);
    if (composed) yield textOf(composed);
  }

  /** Makes a piece with some options other than their defaults. */
  function pieceOf(factory: AnyFactory): Piece {
    const { options, takes } = factory.description,
      given = Object.entries(options).flatMap(([name, option]) => {
        const others = random() < OTHER ? otherValues(option, known) : [];
        return others.length === 0 ? [] : [[name, pick(others, random)] as const];
      }),
      inside = takes === 'scorer' ? [pieceOf(pick(scorers, random))] : [];
    return factory(...inside, ...(given.length > 0 ? [Object.fromEntries(given)] : [])) as Piece;
  }

  function composition(): Piece {
    const pieces = [random() < TWO ? sumOfTwo() : pieceOf(pick(scorers, random))];
    let phase = pieces[0].to as Phase;
    for (const [kind, often] of PLACES) {
      const fitting = factories.filter(
        ({ description: { kind: of, from, takes } }) =>
          of === kind && from?.includes(phase) && (takes === 'nothing' || takes === 'scorer'),
      );
      if (fitting.length === 0 || random() >= often) continue;
      const piece = pieceOf(pick(fitting, random));
      // what does not change which slots stay is no other policy
      if (kind === 'transform' && piece.atoms.every((atom) => atom.at === 'event' && atom.monotone)) continue;
      pieces.push(piece);
      if (piece.to !== 'same') phase = piece.to;
    }
    return compose(...(pieces as readonly AnyPiece[])) as Piece;
  }

  function sumOfTwo(): Piece {
    const weighted = lookUp(known, 'weighted'),
      zScore = lookUp(known, 'zScore'),
      terms = [1, pick([0.25, 0.5, 1], random)].map((weight) => [
        weight,
        compose(pieceOf(pick(scorers, random)) as AnyPiece, zScore() as AnyPiece) as unknown as AnyScorer,
      ]);
    return weighted(...terms) as Piece;
  }
}

/** Returns what is made, or undefined where pieces or options do not fit each other. */
function madeOf(make: () => Piece): Piece | undefined {
  try {
    return make();
  } catch (cause) {
    if (KvError.is(cause)) return undefined;
    throw cause;
  }
}

const pick = <T>(from: readonly T[], random: () => number): T => from[Math.floor(random() * from.length)];

/** Returns values of an option near its default: half and twice of a number, the other words or parts. */
function otherValues({ default: usual, form }: Option<unknown>, known: Registry): readonly unknown[] {
  if (form.sort === 'word') return form.words.filter((word) => word !== usual);
  if (form.sort === 'flag') return [!(usual as boolean)];
  if (form.sort === 'part' && usual !== undefined)
    return entries(known).flatMap(({ factory }) => (factory.description.kind === form.kind ? [factory()] : []));
  if (form.sort !== 'number' || typeof usual !== 'number' || usual === 0) return [];
  const fitted = (value: number): number => {
    if (!form.whole && !(form.wholeFrom !== undefined && value >= form.wholeFrom)) return Number(value.toPrecision(2));
    return form.odd ? 2 * Math.floor(value / 2) + 1 : Math.round(value);
  };
  return [usual / 4, usual / 2, usual * 2]
    .map(fitted)
    .filter((value) => value !== usual && value >= form.least && value <= form.most);
}

/** Returns a piece as policy text with `|` between pieces, which every keyboard has. */
const textOf = ({ methodName, label }: Pick<Piece, 'methodName' | 'label'>): string =>
  (methodName ?? label)
    .split(/("(?:\\.|[^"\\])*")/)
    .map((part, i) => (i % 2 === 0 ? part.replaceAll(' ∘ ', ' | ') : part))
    .join('');

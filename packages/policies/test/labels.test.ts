import { compose, KvError, signalKey } from '@kv/core';
import type { AnyPiece, Piece } from '@kv/core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parsePolicy, pieces, policies } from '../src/index.ts';
import type { AnyScorer, OptionValue, OptionValues, Term } from '../src/index.ts';

interface Subject {
  readonly make: (options?: OptionValues) => Piece;
  readonly options: OptionValues;
}

/** What a piece stands around in these tests: parts with options and brackets of their own. */
const scorer = (text: string): AnyScorer =>
  compose(...text.split(' ∘ ').map((name) => pieces[name].make() as AnyPiece)) as AnyScorer;
const terms: Readonly<Record<string, readonly Term[]>> = {
  scorers: [
    [1, scorer('knorm ∘ softmax')],
    [1, scorer('snapkv')],
  ],
  weighted: [
    [-0.5, scorer('knorm ∘ softmax')],
    [1e-7, scorer('snapkv')],
  ],
  by: [[1, scorer('snapkv ∘ minMax')]],
  of: [[1, scorer('snapkv ∘ topK')]],
};
const subjects: readonly (readonly [string, Subject])[] = [
  ...Object.entries(policies).map(([name, entry]) => [`policy ${name}`, entry] as const),
  ...Object.entries(pieces).map(
    ([name, { make, options, around }]) =>
      [`piece ${name}`, { options, make: (given?: OptionValues) => make(given, around && terms[around]) }] as const,
  ),
];

/** Other values of an option that the piece takes; of words, those that its refusal names. */
function values({ make, options }: Subject, key: string): readonly OptionValue[] {
  const like = options[key];
  const said = (value: OptionValue): string | undefined => {
    try {
      make({ [key]: value });
      return undefined;
    } catch (error) {
      if (KvError.is(error)) return error.message;
      throw error;
    }
  };
  if (typeof like === 'boolean') return [like, !like];
  const tried =
    typeof like === 'number'
      ? [0, 1, 2, 3, 0.25, like / 2, like / 3, like + 2, like * 4, -like, 1e-7, 1e21]
      : [...(said('no such word')?.split(', got ')[0] ?? '').matchAll(/'([^']+)'/g)].map(([, word]) => word);
  return [like, ...tried.filter((value) => said(value) === undefined)];
}
/** As much of a piece as a policy is told by, beside its label. */
const shape = (piece: Piece): unknown => [
  piece.name,
  piece.from,
  piece.to,
  piece.label,
  piece.atoms.map((atom) => [atom.at, atom.label, atom.needs.map(signalKey)]),
];
/** A piece made a policy: what it needs before it and leaves to do after it. */
const around = (piece: Piece): readonly [before: string, after: string] => [
  piece.from.includes('start') ? '' : piece.from.includes('weights') ? 'snapkv ∘ ' : 'snapkv ∘ chunks ∘ ',
  piece.to === 'kept' || (piece.to === 'same' && piece.from.includes('kept'))
    ? ''
    : piece.to === 'units' || piece.from.every((phase) => phase === 'units')
      ? ' ∘ wholeUnits'
      : piece.to === 'same' && piece.from.includes('start')
        ? ' ∘ snapkv ∘ topK'
        : ' ∘ topK',
];
const parsed = (piece: Piece): Piece => {
  const [before, after] = around(piece);
  return parsePolicy(`${before}${piece.label}${after}`);
};
const whole = (piece: Piece): Piece => {
  const [before, after] = around(piece),
    made = (text: string): readonly AnyPiece[] =>
      text
        .split(' ∘ ')
        .filter((name) => name !== '')
        .map((name) => pieces[name].make() as AnyPiece);
  return compose(...made(before), piece as AnyPiece, ...made(after)) as Piece;
};

describe.each(subjects)('%s', (_, subject) => {
  const choices = Object.fromEntries(Object.keys(subject.options).map((key) => [key, values(subject, key)]));
  test('the label of any options is read back as the same policy', () =>
    fc.assert(
      fc.property(
        fc.record(Object.fromEntries(Object.entries(choices).map(([key, of]) => [key, fc.constantFrom(...of)]))),
        (options) => {
          let piece: Piece;
          try {
            piece = subject.make(options);
          } catch (error) {
            if (KvError.is(error)) return fc.pre(false);
            throw error;
          }
          expect(shape(parsed(piece))).toEqual(shape(whole(piece)));
        },
      ),
      { numRuns: 20 },
    ));
  test.each(Object.keys(choices))('%s has other values, and the label shows them', (key) => {
    const labels = choices[key].map((value) => subject.make({ [key]: value }).label);
    expect(labels.length).toBeGreaterThan(1);
    expect(new Set(labels).size).toBe(new Set(choices[key]).size);
  });
});

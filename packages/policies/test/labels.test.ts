import { compose, entries, KvError, lookUp, parsePolicy as parse } from '@kv/core';
import { signalKey } from '@kv/core/engine';
import type { AnyFactory, AnyPiece, OptionForm, Option, Piece } from '@kv/core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { catalogue, parsePolicy } from '../src/index.ts';

const piece = (text: string): AnyPiece =>
  compose(...text.split(' ∘ ').map((name) => lookUp(catalogue, name)() as AnyPiece)) as AnyPiece;
/** Arguments of wrapping pieces in these tests: parts with options and brackets of their own. */
const INSIDE: Readonly<Record<string, readonly unknown[]>> = {
  nothing: [],
  scorers: [piece('knorm ∘ softmax'), piece('snapkv')],
  terms: [
    [-0.5, piece('knorm ∘ softmax')],
    [1e-7, piece('snapkv')],
  ],
  scorer: [piece('keydiff ∘ minMax')],
  policy: [piece('snapkv ∘ topK')],
};
const make = (factory: AnyFactory, options: object): Piece | undefined => {
  try {
    return factory(
      ...INSIDE[factory.description.takes],
      ...(Object.keys(options).length === 0 ? [] : [options]),
    ) as Piece;
  } catch (error) {
    if (KvError.is(error)) return undefined;
    throw error;
  }
};

/** Other values of an option, some of which are refused. */
function values({ default: fallback, form }: Option<unknown>): readonly unknown[] {
  const by: Readonly<Record<OptionForm['sort'], () => readonly unknown[]>> = {
    number: () => {
      const x = typeof fallback === 'number' ? fallback : 2;
      return [
        0,
        1,
        2,
        3,
        0.25,
        x / 2,
        x / 3,
        x + 2,
        x * 4,
        -x,
        1e-7,
        1e21,
        ...(form.sort === 'number' ? (form.words ?? []) : []),
      ];
    },
    word: () => (form.sort === 'word' ? form.words : []),
    flag: () => [true, false],
    text: () => ['', '12', 'true', 'a, (b)="c"', '0.5 1/0.25', '2:5 7:9', 'x | y'],
    part: () =>
      entries(catalogue)
        .filter(({ factory: { description } }) => form.sort === 'part' && description.kind === form.kind)
        .map(({ factory }) => factory()),
    value: () => [],
  };
  return by[form.sort]();
}

/** Returns the properties that identify a piece in a policy, in addition to its label. */
const shape = (made: Piece): unknown => [
  made.name,
  made.from,
  made.to,
  made.label,
  made.atoms.map((atom) => [atom.at, atom.label, atom.needs.map(signalKey)]),
];
/** Returns the text before and after a piece that makes it a policy. */
const around = (made: Piece): readonly [before: string, after: string] => [
  made.from.includes('start') ? '' : made.from.includes('weights') ? 'snapkv ∘ ' : 'snapkv ∘ chunks ∘ ',
  made.to === 'kept' || (made.to === 'same' && made.from.every((phase) => phase === 'kept'))
    ? ''
    : made.to === 'units' || made.from.every((phase) => phase === 'units')
      ? ' ∘ wholeUnits'
      : made.to === 'same' && made.from.includes('start')
        ? ' ∘ snapkv ∘ topK'
        : ' ∘ topK',
];
const parsed = (made: Piece): Piece => {
  const [before, after] = around(made);
  return parsePolicy(`${before}${made.label}${after}`) as Piece;
};
const whole = (made: Piece): Piece => {
  const [before, after] = around(made);
  const named = (text: string): readonly AnyPiece[] =>
    text
      .split(' ∘ ')
      .filter((name) => name !== '')
      .map((name) => lookUp(catalogue, name)() as AnyPiece);
  return compose(...named(before), made as AnyPiece, ...named(after)) as Piece;
};

const declared = entries(catalogue).filter(
  ({ factory: { description } }) => description.kind === 'method' || description.from,
);
describe.each(
  declared.map(({ factory }) => [`${factory.description.kind} ${factory.description.name}`, factory] as const),
)('%s', (_, factory) => {
  const options = Object.entries(factory.description.options);
  const choices = Object.fromEntries(
    options.map(([key, option]) => [key, fc.constantFrom(undefined, ...values(option))]),
  );
  test('the label of any options is read back as the same policy', () =>
    fc.assert(
      fc.property(fc.record(choices), (chosen) => {
        const made = make(factory, Object.fromEntries(Object.entries(chosen).filter(([, x]) => x !== undefined)));
        if (!made || made.label === '') return;
        expect(shape(parsed(made))).toEqual(shape(whole(made)));
      }),
      { numRuns: 20 },
    ));
  test.each(options.filter(([, option]) => values(option).length > 1).map(([key]) => key))(
    '%s has other values, and the label shows them',
    (key) => {
      const option = factory.description.options[key];
      const standard = make(factory, {});
      const others = values(option).flatMap((value) => make(factory, { [key]: value }) ?? []);
      expect(others.some(({ label }) => label !== standard?.label)).toBe(true);
      for (const { label } of others)
        expect(label === standard?.label || factory.description.kind === 'method' || label.includes(`${key}=`)).toBe(
          true,
        );
    },
  );
});

test('what is not of the registry is not read, whatever is installed', () => {
  expect(() => parse('knorm | topK', new Map())).toThrow("policy: expected the name of a method or piece, got 'knorm'");
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { paraphrasedFact, random } from '../src/index.ts';
import type { ParaphrasedFact } from '../src/index.ts';

const FUNCTION_WORDS = new Set(
  'a an and at did does for how in is it much of on the to was what when which'.split(' '),
);
/** Pairs of words of one verb whose beginnings differ, for a check by beginnings. */
const IRREGULAR: Readonly<Record<string, string>> = { bought: 'buy', spent: 'spend', paid: 'pay', cost: 'cost' };
/** Words of a question and what the statement says instead; a question without any could not be answered. */
const SYNONYMS: Readonly<Record<string, string>> = {
  ...{ doctor: 'physician', lawyer: 'attorney', teacher: 'instructor', pilot: 'aviator', king: 'monarch' },
  ...{ trader: 'merchant', writer: 'author', policeman: 'constable', car: 'automobile', ship: 'vessel' },
  ...{ horse: 'stallion', couch: 'sofa', house: 'dwelling', picture: 'painting', clock: 'timepiece', bike: 'bicycle' },
  ...{ spend: 'paid', bought: 'purchased' },
};
const wordsOf = (text: string): readonly string[] =>
  (text.toLowerCase().match(/[a-z]+/g) ?? []).filter((word) => !FUNCTION_WORDS.has(word));
/** The first four letters of a word: stricter than a stemmer, which takes ends off. */
const stem = (word: string): string => (IRREGULAR[word] ?? word).slice(0, 4);
const shared = ({ statement, question }: ParaphrasedFact): readonly string[] => {
  const stated = new Set(wordsOf(statement).map(stem));
  return wordsOf(question).filter((word) => stated.has(stem(word)));
};
const each = (claim: (fact: ParaphrasedFact) => void): void =>
  fc.assert(fc.property(fc.integer(), (seed) => claim(paraphrasedFact(random(seed), ''))));

describe('paraphrasedFact', () => {
  it('gives a statement and a question that share no content word, by stems', () =>
    each((fact) => {
      expect(shared(fact)).toEqual([]);
      // what the check finds where a question repeats a word of its statement, in another form
      const [person] = wordsOf(fact.statement);
      expect(shared({ ...fact, question: `${fact.question} ${person}s` })).toEqual([`${person}s`]);
    }));
  it('asks by a synonym for each thing and person that is stated', () =>
    each(({ statement, value, question }) => {
      const asked = new Set(wordsOf(question).map((word) => SYNONYMS[word]));
      expect(wordsOf(statement.replace(value, '')).filter((word) => !asked.has(word))).toEqual([]);
    }));
  it('states the value once, never in the question, and not one of the text', () => {
    each(({ statement, value, question }) => {
      expect(statement.split(value)).toHaveLength(2);
      expect(question).not.toContain(value);
    });
    const amounts = Array.from({ length: 45_000 }, (_, k) => 2 * k + 10_000).join(' ');
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        expect(Number(paraphrasedFact(random(seed), amounts).value) % 2).toBe(1);
      }),
      { numRuns: 20 },
    );
    const every = Array.from({ length: 90_000 }, (_, k) => k + 10_000).join(' ');
    expect(() => paraphrasedFact(random(1), every)).toThrow(RangeError);
  });
});

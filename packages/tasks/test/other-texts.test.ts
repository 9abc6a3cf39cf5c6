import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { generatedProblem, generatedTasks, grade, heldOutBook, needle, sentencesOf, spearman } from '../src/index.ts';
import { wordsOf } from '../src/values.ts';

const encode = (text: string) => {
  const words = [...text.matchAll(/\S+\s*/gu)];
  return {
    ids: words.map((_, i) => i),
    offsets: words.map(({ index, 0: word }) => [index, index + word.length] as const),
  };
};

describe('texts of any language', () => {
  it('have sentences', async () => {
    expect(sentencesOf('Он пришёл. Она ушла! Где они? Не знаю.')).toHaveLength(4);
    expect(sentencesOf('他来了。她走了！他们在哪里？我不知道。')).toHaveLength(4);
    expect(sentencesOf('Élise vint. École fermée.')).toHaveLength(2);
    // those of English are as they were, since prompts are drawn from them
    const book = await heldOutBook(),
      before = book
        .replace(/\s+/g, ' ')
        .trim()
        .split(/(?<=[.!?]|[.!?]["')])\s(?=["'(A-Z0-9])/)
        .filter((sentence) => sentence.length > 1 && sentence.length < 600);
    expect(sentencesOf(book)).toEqual(before);
    expect(wordsOf('book', before, 1)).toEqual([
      ...new Set(before.flatMap((sentence) => sentence.toLowerCase().match(/\b[a-z]{4,10}\b/g) ?? [])),
    ]);
  });
  it.each(generatedTasks)('%s of a text with few words, and without any, is a problem or one sentence', (task) => {
    for (const sentences of [
      [],
      ['Он пришёл.'],
      ['A b c.', 'No, no!'],
      Array.from({ length: 40 }, (_, i) => `Слово ${i}.`),
    ])
      try {
        const { context, question, answers } = generatedProblem(task, 0, { encode, sentences, tokens: 900, seed: 1 });
        expect(context + question).not.toContain('undefined');
        expect(answers.length).toBeGreaterThan(0);
      } catch (cause) {
        expect(cause, String((cause as Error).stack)).toBeInstanceOf(RangeError);
      }
  });
});

it('other facts of a needle are as many as there are names', async () => {
  const sentences = sentencesOf(await heldOutBook()),
    of = (distractors: number) => needle({ encode, sentences, tokens: 900, depth: 0.5, seed: 1, distractors });
  expect(of(41).document).not.toContain('undefined');
  for (const distractors of [-1, 42, 0.5, Number.NaN])
    expect(() => of(distractors)).toThrow(
      `needle: distractors must be a whole number from 0 to 41, got ${distractors}`,
    );
  expect(() => needle({ encode, sentences: [], tokens: 100, depth: 0, seed: 1 })).toThrow('needle: expected sentences');
});

it('ranks of what is no number are refused', () => {
  fc.assert(
    fc.property(fc.array(fc.double(), { minLength: 2 }), (values) => {
      if (values.some(Number.isNaN))
        expect(() => spearman(values, values)).toThrow('spearman: expected numbers, got NaN');
      else expect(spearman(values, values)).toBeLessThanOrEqual(1 + 1e-9);
    }),
  );
});

it.each([
  ['number', '10-15', '15', 1],
  ['number', 'The room is A-312', '312', 1],
  ['number', 'It is .5', '0.5', 1],
  ['number', 'It is −5', '-5', 1],
  ['number', 'They are 3,4,5', '5', 1],
  ['number', 'In all $1,234.50', '1234.5', 1],
  ['number', '1,234,567', '1234567', 1],
  ['number', 'It is -.25', '-0.25', 1],
  ['boxed', '\\boxed{yes}', 'Yes', 1],
  ['boxed', '\\boxed{no}', '\\text{No}', 1],
  ['boxed', '\\boxed{on}', '\\text{no}', 0],
  ['boxed', '\\boxed{xy}', 'yx', 1],
  ['boxed', '\\boxed{x}', '1x', 1],
] as const)('%s reads %s for %s', (grader, said, truth, score) =>
  expect(grade(said, { grader, answers: [truth] }).score).toBe(score),
);

import { ratio } from './ratio.ts';

const PUNCTUATION = /[!"#$%&'()*+,\-./:;<=>?@[\\\]^_`{|}~]/g;

/** Words without case, ASCII punctuation and articles. */
const words = (text: string): readonly string[] =>
  text
    .toLowerCase()
    .replace(PUNCTUATION, '')
    .replace(/(?<![\p{L}\p{N}_])(?:a|an|the)(?![\p{L}\p{N}_])/gu, ' ')
    .split(/\s+/)
    .filter((word) => word !== '');

/** F1 of the multisets of words; 0 where none is shared, so also of two texts without words. */
export function qaF1(answer: string, truth: string): number {
  const given = words(answer),
    wanted = words(truth),
    left = new Map<string, number>();
  for (const word of wanted) left.set(word, (left.get(word) ?? 0) + 1);
  let shared = 0;
  for (const word of given) {
    const count = left.get(word) ?? 0;
    if (count > 0) shared++;
    left.set(word, count - 1);
  }
  const precision = shared / given.length,
    recall = shared / wanted.length;
  return shared === 0 ? 0 : (2 * precision * recall) / (precision + recall);
}

/** Of the numbers that an answer names, how many are the true one. */
export function countShare(answer: string, truth: string): number {
  const numbers = answer.match(/\d+/g) ?? [];
  return numbers.length === 0 ? 0 : numbers.filter((number) => number === truth).length / numbers.length;
}

/** The same for the number of "Paragraph 12". */
export const retrievalScore = (answer: string, truth: string): number =>
  countShare(answer, /Paragraph (\d+)/.exec(truth)?.[1] ?? truth);

/** 1 / n where n classes stand in the answer and the true one is among them. */
export function classification(answer: string, truth: string, classes: readonly string[]): number {
  const named = classes.filter((one) => answer.includes(one));
  // LongBench removes parts of the true name from the list over which it iterates: what follows a removed one is skipped
  for (let i = 0; i < named.length; i++) {
    const one = named[i];
    if (truth.includes(one) && one !== truth) named.splice(named.indexOf(one), 1);
  }
  return named.includes(truth) ? 1 / named.length : 0;
}

/** Likeness of the first line of code that is no fence and holds no comment, in whole percents. */
export function codeSimilarity(answer: string, truth: string): number {
  const line =
    answer
      .replace(/^\n+/, '')
      .split('\n')
      .find((one) => !/`|#|\/\//.test(one)) ?? '';
  if (line === '' || truth === '') return 0;
  return line === truth ? 1 : roundHalfEven(100 * ratio(line, truth)) / 100;
}

/** As Python rounds. */
function roundHalfEven(x: number): number {
  const low = Math.floor(x);
  return x - low === 0.5 ? low + (low % 2) : Math.round(x);
}

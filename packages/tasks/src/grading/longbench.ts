import { ratio } from './ratio.ts';

const PUNCTUATION = /[!"#$%&'()*+,\-./:;<=>?@[\\\]^_`{|}~]/g;

/** Splits into words, without case, ASCII punctuation and articles. */
const words = (text: string): readonly string[] =>
  text
    .toLowerCase()
    .replace(PUNCTUATION, '')
    .replace(/(?<![\p{L}\p{N}_])(?:a|an|the)(?![\p{L}\p{N}_])/gu, ' ')
    .split(/\s+/)
    .filter((word) => word !== '');

/** Returns the F1 of the multisets of words; 0 if none is shared, so also for two texts without words. */
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

/** Returns the share of the numbers in an answer that equal the true one. */
export function countShare(answer: string, truth: string): number {
  const numbers = answer.match(/\d+/g) ?? [];
  return numbers.length === 0 ? 0 : numbers.filter((number) => number === truth).length / numbers.length;
}

/** Returns the same share for the numbers of "Paragraph 12", or "段落12". */
export const retrievalScore = (answer: string, truth: string): number =>
  countShare(answer, /(?:Paragraph |段落)(\d+)/.exec(truth)?.[1] ?? truth);

/** Returns 1 / n if n classes occur in the answer and the true one is among them, else 0. */
export function classification(answer: string, truth: string, classes: readonly string[]): number {
  const named = classes.filter((one) => answer.includes(one));
  // LongBench removes parts of the true name from the list while iterating over it, which skips the one after each
  for (let i = 0; i < named.length; i++) {
    const one = named[i];
    if (truth.includes(one) && one !== truth) named.splice(named.indexOf(one), 1);
  }
  return named.includes(truth) ? 1 / named.length : 0;
}

/** Returns the similarity, in whole percent, of the first line of code that is neither a fence nor a comment. */
export function codeSimilarity(answer: string, truth: string): number {
  const line =
    answer
      .replace(/^\n+/, '')
      .split('\n')
      .find((one) => !/`|#|\/\//.test(one)) ?? '';
  if (line === '' || truth === '') return 0;
  return line === truth ? 1 : roundHalfEven(100 * ratio(line, truth)) / 100;
}

/** Rounds half to even, as Python does. */
function roundHalfEven(x: number): number {
  const low = Math.floor(x);
  return x - low === 0.5 ? low + (low % 2) : Math.round(x);
}

/** Returns the first line, after line breaks that it may begin with. */
export const firstLine = (answer: string): string => answer.replace(/^\n+/, '').split('\n')[0];

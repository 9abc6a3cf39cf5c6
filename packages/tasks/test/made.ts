import { generateProblems, heldOutBook, sentencesOf } from '../src/index.ts';
import type { GeneratedTask, Problem } from '../src/index.ts';

/** Encodes up to four letters, a digit, or another character as one token, which is close to real tokenizers. */
export const encode = (text: string): { ids: readonly number[]; offsets: readonly (readonly [number, number])[] } => {
  const found = [...text.matchAll(/[A-Za-z]{1,4}|\d|[^A-Za-z\d]/g)];
  return { ids: found.map((_, i) => i), offsets: found.map(({ index, 0: piece }) => [index, index + piece.length]) };
};

const sentences = sentencesOf(await heldOutBook());
export const made = (task: GeneratedTask, problems = 4, seed = 1, tokens = 1800): readonly Problem[] =>
  generateProblems(task, { encode, sentences, tokens, problems, seed });

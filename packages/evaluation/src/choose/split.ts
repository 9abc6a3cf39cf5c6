import { random } from '@kv/tasks';
import type { ChoicePrompt } from './prompts.ts';

type InDocument = Pick<ChoicePrompt, 'document'>;

/** Prompts by their number: those that choose, and those that confirm, which have no say in the choice. */
export interface ChoiceSplit {
  readonly choosing: readonly number[];
  readonly confirming: readonly number[];
}

/**
 * Splits prompts by their documents, so that two questions about one text are never on both sides. Documents are put in
 * the order of a digest of seed and name; the first half, rounded up, chooses.
 */
export function splitPrompts(prompts: readonly InDocument[], seed: number | string): ChoiceSplit {
  const documents = [...new Set(prompts.map(({ document }) => document))],
    ranked = documents
      .map((document) => ({ document, rank: random(`${seed}/${document}`).next() }))
      .sort((a, b) => a.rank - b.rank)
      .map(({ document }) => document),
    half = Math.ceil(ranked.length / 2),
    of = (some: readonly string[]): readonly number[] =>
      some.flatMap((document) => prompts.flatMap((prompt, i) => (prompt.document === document ? [i] : [])));
  return { choosing: of(ranked.slice(0, half)), confirming: of(ranked.slice(half)) };
}

/** Returns the document of each of some prompts, as a number. */
export function clustersOf(some: readonly number[], prompts: readonly InDocument[]): readonly number[] {
  const numbers = new Map<string, number>();
  for (const prompt of some) {
    const { document } = prompts[prompt];
    if (!numbers.has(document)) numbers.set(document, numbers.size);
  }
  return some.map((prompt) => numbers.get(prompts[prompt].document) ?? 0);
}

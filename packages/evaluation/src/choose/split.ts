import { random } from '@kv/tasks';

/** Prompts by their number: those that choose, and those that confirm, which have no say in the choice. */
export interface ChoiceSplit {
  readonly choosing: readonly number[];
  readonly confirming: readonly number[];
}

/**
 * Splits prompts by their documents, so that two questions about one text are never on both sides. Documents are put in
 * the order of a digest of seed and name; the first half, rounded up, chooses.
 */
export function splitPrompts(prompts: readonly { readonly document: string }[], seed: number | string): ChoiceSplit {
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

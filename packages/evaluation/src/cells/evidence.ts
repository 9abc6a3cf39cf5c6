import { certificate } from '@kv/certificates';
import type { Sequence } from '@kv/models';
import { wordsAt } from '@kv/tasks';
import type { Problem } from '@kv/tasks';
import { mean } from '../numbers.ts';
import { retainedShare } from '../sequences.ts';
import type { KeptPositions } from '../sequences.ts';

/** Number of bins, over the prompt's length, of a map of kept positions. */
export const BINS = 32;

/** Measurements of a cell's cache that accompany its answer. */
export interface Evidence {
  /** Relative position of the answer in the prompt, 0 to 1; absent if it does not occur there. */
  readonly depth?: number;
  /** Share of the pairs of layer and KV head that hold every token of the answer when the answer begins. */
  readonly answerKept?: number;
  /**
   * For the newest query, over all events, or all views if there was none: attention mass outside the kept set, and the
   * least possible.
   */
  readonly dropped?: number;
  /** Mean of the least mass that sets of these sizes can drop. */
  readonly least?: number;
  /** Overlap of the kept set with the best set of its size, as a share. */
  readonly overlap?: number;
  /** Share of positions kept, `[layer * KV heads + head][bin]`, one byte each (255 is all), base64. */
  readonly map?: string;
}

/** Returns the positions of the tokens of the first answer that the prompt says in whole words, where it does last. */
export function answerTokens(
  { context, question, answers }: Pick<Problem, 'context' | 'question' | 'answers'>,
  offsets: readonly (readonly [start: number, end: number])[],
): readonly number[] {
  for (const answer of answers.filter((one) => one.trim() !== '')) {
    const at = wordsAt(context, answer).at(-1);
    if (at === undefined || wordsAt(question, answer).length > 0) continue;
    const end = at + answer.length;
    return [...offsets.keys()].filter((i) => offsets[i][0] < end && offsets[i][1] > at);
  }
  return [];
}

/**
 * Observes a sequence and returns a function that reads its certificates. The cache must be on the host; on a device
 * there are none.
 */
export function watch(sequence: Sequence): () => Pick<Evidence, 'dropped' | 'least' | 'overlap'> {
  const found = { event: [], view: [] } as Record<'event' | 'view', ReturnType<typeof certificate>[]>;
  if (sequence.memory.caches.observers)
    sequence.observer = {
      row: ({ at, weights, sink, kept }) => {
        found[at].push(certificate(weights, kept, sink));
      },
      conclude: () => ({}),
    };
  return () => {
    const rows = found.event.length > 0 ? found.event : found.view;
    return rows.length === 0
      ? {}
      : {
          dropped: mean(rows.map(({ dropped }) => dropped)),
          least: mean(rows.map(({ best }) => best)),
          overlap: mean(rows.map(({ overlap }) => overlap)),
        };
  };
}

/** Returns what is kept of a prompt of `length` tokens before the answer begins. */
export const keptOf = (kept: KeptPositions, length: number, answer: readonly number[]): Evidence => ({
  ...(answer.length > 0 && {
    depth: answer[0] / Math.max(1, length - 1),
    answerKept: retainedShare(kept, answer),
  }),
  map: mapOf(kept, length),
});

function mapOf(kept: KeptPositions, length: number): string {
  const bin = (position: number): number => Math.min(BINS - 1, Math.floor((position * BINS) / Math.max(1, length))),
    sizes = new Float64Array(BINS);
  for (let i = 0; i < length; i++) sizes[bin(i)]++;
  const rows = kept.flat(),
    bytes = new Uint8Array(rows.length * BINS);
  for (const [r, row] of rows.entries()) {
    const counts = new Float64Array(BINS);
    for (const position of row) if (position < length) counts[bin(position)]++;
    for (let b = 0; b < BINS; b++) bytes[r * BINS + b] = Math.round((255 * counts[b]) / Math.max(1, sizes[b]));
  }
  return Buffer.from(bytes).toString('base64');
}

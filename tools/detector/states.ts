import { watchLayers } from '@kv/engine';
import type { HostModel } from '@kv/models';
import type { Document, Line } from './documents.ts';

/**
 * A document as the model sees it: offsets of its tokens, and their hidden states `[tokens, D]` after the last layer
 * and the final norm.
 */
export interface Seen extends Document {
  readonly ids: readonly number[];
  readonly offsets: readonly (readonly [number, number])[];
  readonly states: Float32Array;
}

/** Runs the model over a document. */
export async function see(model: HostModel, document: Document): Promise<Seen> {
  const { ids, offsets } = model.tokenizer.encode(document.text),
    width = model.config.hidden,
    states = new Float32Array(ids.length * width);
  let at = 0;
  await watchLayers(model, ids, {
    hidden: (rows) => {
      states.set(rows, at);
      at += rows.length;
    },
  });
  return { ...document, ids, offsets, states };
}

/** Returns the tokens of a line: all, the one in which its sign ends, and those from there to its value. */
export function tokensOf(
  { offsets, text }: Pick<Seen, 'offsets' | 'text'>,
  { start, sign, end }: Line,
): { readonly all: readonly number[]; readonly sign: number; readonly until: number } {
  const all = [...offsets.keys()].filter((i) => offsets[i][0] < end && offsets[i][1] > start),
    at = all.filter((i) => offsets[i][0] < sign).at(-1) ?? all[0];
  const value = sign + (/^\s*["']?/.exec(text.slice(sign, end))?.[0].length ?? 0),
    until = all.filter((i) => i >= at && offsets[i][1] <= value).at(-1) ?? at;
  return { all, sign: at, until: Math.max(at, until) };
}

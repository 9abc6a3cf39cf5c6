import type { Sequence } from '../sequence/sequence.ts';

/** Positions held, `[layer][kvHead]`. */
type Kept = readonly (readonly (readonly number[])[])[];

/** Returns, for each of `tokens` tokens, the share of layers and KV heads that hold it. */
export function heldShares(kept: Kept, tokens: number): readonly number[] {
  const rows = kept.flat(),
    counts = new Array<number>(tokens).fill(0);
  for (const row of rows) for (const position of row) counts[position]++;
  return counts.map((count) => count / rows.length);
}

/** Returns the number of tokens that no layer and KV head of a sequence holds any more. */
export const droppedTokens = (sequence: Pick<Sequence, 'progress' | 'memory'>): number =>
  heldShares(sequence.memory.slots.kept(), sequence.progress.length).filter((share) => share === 0).length;

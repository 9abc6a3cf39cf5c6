import { decode } from '@kv/models';
import type { Sequence } from '@kv/models';
import { mean } from './numbers.ts';

/** Calls `use` with a sequence and destroys it afterwards, also on errors. */
export async function using<T>(sequence: Sequence, use: (sequence: Sequence) => Promise<T>): Promise<T> {
  try {
    return await use(sequence);
  } finally {
    sequence.destroy();
  }
}

/** Decodes greedily; without `stop` the answer has the same length for every cache. */
export async function greedy(
  sequence: Sequence,
  { maxNewTokens, stop }: { readonly maxNewTokens: number; readonly stop?: readonly string[] | undefined },
  onChunk?: () => void,
): Promise<{ readonly text: string; readonly tokens: readonly number[] }> {
  const tokens: number[] = [];
  let text = '';
  for await (const chunk of decode(sequence, { maxNewTokens, stop })) {
    text += chunk.text;
    if (chunk.token !== undefined) tokens.push(chunk.token);
    onChunk?.();
  }
  return { text, tokens };
}

/** Returns the current mean number of slots per layer and KV head. */
export const slotsNow = (sequence: Sequence): number =>
  mean(
    sequence
      .kept()
      .flat()
      .map(({ length }) => length),
  );

/** Kept positions, `[layer][kvHead][slot]`. */
export type KeptPositions = readonly (readonly (readonly number[])[])[];

/** Returns the share of these positions that are kept, over all pairs of layer and KV head. */
export const keptTokens = (kept: KeptPositions, positions: readonly number[]): number =>
  mean(
    kept.flat().flatMap((row) => {
      const there = new Set(row);
      return positions.map((position) => Number(there.has(position)));
    }),
  );

/**
 * Returns the share of pairs of layer and KV head that hold all of these positions.
 * @param kept positions kept, `[layer][kvHead]`
 */
export function retainedShare(kept: KeptPositions, positions: readonly number[]): number {
  const rows = kept.flat().map((row) => new Set(row));
  return rows.filter((row) => positions.every((position) => row.has(position))).length / rows.length;
}

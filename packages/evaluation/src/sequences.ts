import { decode } from '@kv/models';
import type { Sequence } from '@kv/models';
import { mean } from './numbers.ts';

/** Uses a sequence, which is destroyed whatever happens. */
export async function using<T>(sequence: Sequence, use: (sequence: Sequence) => Promise<T>): Promise<T> {
  try {
    return await use(sequence);
  } finally {
    sequence.destroy();
  }
}

/** The likeliest answer; without `stop` of the same length for every cache. */
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

/** Slots of a layer and KV head now, on average. */
export const slotsNow = (sequence: Sequence): number =>
  mean(
    sequence
      .kept()
      .flat()
      .map(({ length }) => length),
  );

/** Positions that are kept: `[layer][kvHead][slot]`. */
export type KeptPositions = readonly (readonly (readonly number[])[])[];

/** Share of these positions that are kept, over all pairs of layer and KV head. */
export const keptTokens = (kept: KeptPositions, positions: readonly number[]): number =>
  mean(
    kept.flat().flatMap((row) => {
      const there = new Set(row);
      return positions.map((position) => Number(there.has(position)));
    }),
  );

/** Share of the pairs of layer and KV head that hold every one of these positions. */
export function retainedShare(kept: KeptPositions, positions: readonly number[]): number {
  const rows = kept.flat().map((row) => new Set(row));
  return rows.filter((row) => positions.every((position) => row.has(position))).length / rows.length;
}

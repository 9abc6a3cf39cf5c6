import type { CompiledPolicy } from '@kv/core/engine';
import { decode } from '@kv/models';
import type { Finish, Sequence } from '@kv/models';
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
): Promise<{ readonly text: string; readonly tokens: readonly number[]; readonly finish: Finish }> {
  const answer = decode(sequence, { maxNewTokens, stop }),
    tokens: number[] = [];
  let text = '',
    next = await answer.next();
  for (; !next.done; next = await answer.next()) {
    text += next.value.text;
    if (next.value.token !== undefined) tokens.push(next.value.token);
    onChunk?.();
  }
  return { text, tokens, finish: next.value };
}

/** Maximum rows of logits at once: with a vocabulary of 256k they take 64 MB. */
const ROWS = 64;

/**
 * Feeds tokens under a policy, and yields, in blocks, the rows of logits that predict each of them; the last is not fed.
 * @param every generated tokens between two events. @defaultValue the policy's cadence
 */
export async function* rowsAlong(
  sequence: Sequence,
  tokens: readonly number[],
  { hooks }: CompiledPolicy,
  every = hooks('cadence')[0]?.every,
): AsyncGenerator<readonly Float32Array[], void> {
  yield (await sequence.logits()).slice(-1); // the last row of the prompt's logits
  // if no event or hook runs between two tokens, they are read in blocks
  const size = every === undefined && hooks('view').length + hooks('step').length === 0 ? ROWS : 1;
  for (let at = 0; at + 1 < tokens.length; at += size) {
    const fed = tokens.slice(at, Math.min(at + size, tokens.length - 1));
    if (size === 1) await sequence.step(fed[0], every);
    else await sequence.append(fed, { rows: fed.length });
    yield await sequence.logits();
  }
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

import type { BatchGroup } from '../memory/feed.ts';
import type { Sequence } from './sequence.ts';

/** One sequence's step: the token to feed, and the number of tokens between events. */
export interface SequenceStep {
  readonly sequence: Sequence;
  readonly token: number;
  readonly every?: number | undefined;
}

/**
 * Runs `sequence.step(token, every)` for several sequences at once. Where their memories allow it, each layer's
 * products take the rows of all of them, and attention runs per sequence; elsewhere the steps run one by one. A
 * sequence's result does not depend on the others, to the bit.
 * @returns one entry per step, in order: undefined, or the error it failed with
 */
export async function stepTogether(steps: readonly SequenceStep[]): Promise<readonly (Error | undefined)[]> {
  const failures: (Error | undefined)[] = steps.map(() => undefined);
  const groups = new Map<object, { readonly group: BatchGroup | undefined; readonly at: number[] }>();
  for (const [i, { sequence }] of steps.entries()) {
    const { batchGroup: group } = sequence.memory.caches,
      key = group?.key ?? sequence,
      known = groups.get(key) ?? { group, at: [] };
    known.at.push(i);
    groups.set(key, known);
  }
  for (const { group, at } of groups.values()) {
    const members = at.length > 1 && group ? group.open(at.length) : [];
    await Promise.all(
      at.map(async (i, n) => {
        const { sequence, token, every } = steps[i],
          batch = members[n];
        try {
          await sequence.step(token, every, batch);
        } catch (cause) {
          failures[i] = cause instanceof Error ? cause : new Error(String(cause));
        } finally {
          batch?.leave();
        }
      }),
    );
  }
  return failures;
}

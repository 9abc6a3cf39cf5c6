import type { BatchGroup } from '../memory/memory.ts';
import type { Sequence } from './sequence.ts';

/** One sequence's step: the token that it is fed, and an event every so many. */
export interface SequenceStep {
  readonly sequence: Sequence;
  readonly token: number;
  readonly every?: number | undefined;
}

/**
 * `sequence.step(token, every)` of several sequences at once: where their memories allow it, each layer's products take
 * the rows of all of them, and attention is by sequence. What a sequence gives does not depend on the others, to the bit;
 * elsewhere the steps run one by one.
 * @returns by step, in order: nothing, or what it failed with
 */
export async function stepTogether(steps: readonly SequenceStep[]): Promise<readonly (Error | undefined)[]> {
  const failures: (Error | undefined)[] = steps.map(() => undefined);
  const groups = new Map<object, { readonly group: BatchGroup | undefined; readonly at: number[] }>();
  for (const [i, { sequence }] of steps.entries()) {
    const { group } = sequence.memory,
      key = group?.key ?? sequence,
      known = groups.get(key) ?? { group, at: [] };
    known.at.push(i);
    groups.set(key, known);
  }
  for (const { group, at } of groups.values()) {
    const places = at.length > 1 && group ? group.open(at.length) : [];
    await Promise.all(
      at.map(async (i, n) => {
        const { sequence, token, every } = steps[i],
          place = places[n];
        try {
          await sequence.step(token, every, place);
        } catch (cause) {
          failures[i] = cause instanceof Error ? cause : new Error(String(cause));
        } finally {
          place?.leave();
        }
      }),
    );
  }
  return failures;
}

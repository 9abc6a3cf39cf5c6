import { compile } from '@kv/core';
import type { Policy } from '@kv/core';
import { Sequence } from '@kv/models';
import type { Model, Observer } from '@kv/models';
import { armKey } from './arms.ts';
import type { Arm, Numbers } from './types.ts';

/** What all trials share. */
export interface Bench {
  readonly model: Model;
  readonly sentences: readonly string[];
  /** The book's part for these prompts, as ids. */
  readonly prose: readonly number[];
  readonly embedded: boolean;
  readonly seed: number;
  readonly cwd: string;
}
export interface Tried {
  readonly arm: Arm;
  readonly policy: Policy;
}
export interface Passing {
  /** Tokens a block, each followed by an event. */
  readonly block?: number | undefined;
  /** Looks on where something is hidden while tokens pass. */
  readonly witness?: () => Observer;
}
export type ByArm = Readonly<Record<string, Numbers>>;

/** A sequence for each arm: forks of one prefill, or, by blocks or under a view, its own. */
export async function forEach(
  { model }: Bench,
  ids: readonly number[],
  { block, witness }: Passing,
  tried: readonly Tried[],
  measure: (sequence: Sequence, tried: Tried) => Promise<Numbers>,
): Promise<ByArm> {
  const out: Record<string, Numbers> = {};
  const whole = new Sequence(model);
  try {
    // What acts while tokens pass is told so before the prompt does.
    const apart = (policy: Policy): boolean => {
      const { evicts, hooks } = compile(policy);
      return (evicts && block !== undefined) || hooks('view').length > 0;
    };
    const shared = tried.filter(({ policy }) => !apart(policy));
    if (shared.length > 0) await whole.prefill(ids, { policies: shared.map(({ policy }) => policy) });
    for (const one of tried) {
      const { arm, policy } = one,
        sequence = apart(policy) ? new Sequence(model) : whole.fork();
      try {
        if (witness && compile(policy).hooks('view').length > 0) sequence.observer = witness();
        if (apart(policy))
          await sequence.prefill(ids, { policy, budget: compile(policy).evicts ? arm.budget : undefined, block });
        else await sequence.evict(policy, arm.budget ?? '100%');
        out[armKey(arm)] = await measure(sequence, one);
      } finally {
        sequence.destroy();
      }
    }
  } finally {
    whole.destroy();
  }
  return out;
}

export const mean = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0) / numbers.length;
/** Slots of a layer and KV head now, on average. */
export const slotsNow = (sequence: Sequence): number =>
  mean(
    sequence
      .kept()
      .flat()
      .map(({ length }) => length),
  );

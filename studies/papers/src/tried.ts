import { compile } from '@kv/core/engine';
import type { Policy } from '@kv/core';
import { Sequence } from '@kv/models';
import type { Observer } from '@kv/models';
import type { Bench } from '@kv/evaluation';
import { using } from '@kv/evaluation/shared';
import type { ByArm } from './jobs.ts';
import { armKey } from './types.ts';
import type { Arm, Numbers } from './types.ts';

/** Data shared by all trials. */
export interface PaperBench extends Bench {
  readonly sentences: readonly string[];
  /** The part of the text for these prompts, as ids. */
  readonly prose: readonly number[];
  readonly embedded: boolean;
  readonly seed: number;
}
export interface Tried {
  readonly arm: Arm;
  readonly policy: Policy;
}
export interface Passing {
  /** Tokens per block, each followed by an event. */
  readonly block?: number | undefined;
  /** Creates an observer of what views hide while tokens pass. */
  readonly observer?: (() => Observer) | undefined;
}

/** Measures each arm, one after another. */
export async function byArm(tried: readonly Tried[], measure: (tried: Tried) => Promise<Numbers>): Promise<ByArm> {
  const out: Record<string, Numbers> = {};
  for (const one of tried) out[armKey(one.arm)] = await measure(one);
  return out;
}

/** Opens a sequence for each arm: forks of one prefill or, for blocks, views or frozen tokens, a prefill of its own. */
export function forEach(
  { model }: Bench,
  ids: readonly number[],
  { block, observer }: Passing,
  tried: readonly Tried[],
  measure: (sequence: Sequence, tried: Tried) => Promise<Numbers>,
): Promise<ByArm> {
  const hides = (policy: Policy): boolean => compile(policy).hooks('view').length > 0,
    freezes = (policy: Policy): boolean => compile(policy).hooks('freeze').length > 0,
    evicts = (policy: Policy): boolean => compile(policy).evicts,
    // a policy that acts while tokens pass must be set before the prompt is fed
    apart = (policy: Policy): boolean => (evicts(policy) && block !== undefined) || hides(policy) || freezes(policy),
    shared = tried.map(({ policy }) => policy).filter((policy) => !apart(policy));
  return using(new Sequence(model), async (whole) => {
    if (shared.length > 0) await whole.prefill(ids, { policies: shared });
    return byArm(tried, (one) => {
      const { arm, policy } = one;
      return using(apart(policy) ? new Sequence(model) : whole.fork(), async (sequence) => {
        if (observer && hides(policy)) sequence.observer = observer();
        if (apart(policy))
          await sequence.prefill(ids, { policy, budget: evicts(policy) ? arm.budget : undefined, block });
        else await sequence.evict(policy, arm.budget ?? '100%');
        return measure(sequence, one);
      });
    });
  });
}

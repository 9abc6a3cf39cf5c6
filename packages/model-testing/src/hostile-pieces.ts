import type { Policy } from '@kv/core';
import { judgeHostile } from '@kv/laws';
import type { HostileCase } from '@kv/laws';
import { expect } from 'vitest';

/** The parts of a sequence that the cases use. */
interface Sequence {
  prefill(ids: readonly number[], options?: { readonly policy?: Policy }): Promise<void>;
  evict(policy: Policy, budget: number): Promise<void>;
  decodeUnder(policy: Policy, budget?: number): void;
  step(token: number): Promise<void>;
  fork(): Sequence;
  kept(): number[][][];
  logits(): Promise<readonly Float32Array[]>;
  readonly memory: { readonly ledger: { readonly allocated: number; readonly live: number } };
  destroy(): void;
}

/** Whether a failure leaves the sequence unchanged. */
const untouched = (when: HostileCase['when']): boolean => !['prefill', 'decode', 'step'].includes(when);

/**
 * Runs cases of hostile pieces on sequences of an engine and checks the errors and the state left. `end` checks that a
 * sequence that had to stay unchanged continues normally.
 */
export async function hostilePieces(
  open: () => Sequence,
  ids: readonly number[],
): Promise<{ run(one: HostileCase): Promise<void>; end(): Promise<void> }> {
  const base = open();
  await base.prefill(ids);
  const next = async (sequence: Sequence): Promise<readonly number[]> => {
      await sequence.step(1);
      return (await sequence.logits()).flatMap((row) => [...row]);
    },
    other = base.fork(),
    want = await next(other);
  other.destroy();
  const calm = base.fork(); // for the cases that leave a sequence unchanged

  const ask = async (sequence: Sequence, when: HostileCase['when'], policy: Policy): Promise<void> => {
    if (when === 'prefill') return sequence.prefill(ids, { policy });
    if (when !== 'decode' && when !== 'step') return sequence.evict(policy, 4);
    sequence.decodeUnder(policy, 4);
    await sequence.step(1);
    await sequence.logits(); // on a device, this reads the results that views depend on
  };
  /**
   * Returns the engine's error once the piece fails; a `late` piece first runs in another sequence.
   */
  async function said(sequence: Sequence, { policy: make, when, late, overwrites }: HostileCase): Promise<unknown> {
    const policy = make();
    if (late) {
      const first = base.fork();
      await ask(first, when, policy);
      first.destroy();
    }
    const before = untouched(when) && !overwrites && sequence.kept();
    try {
      await ask(sequence, when, policy);
      return undefined;
    } catch (error) {
      if (before) expect(sequence.kept(), 'what it holds').toEqual(before);
      return error ?? new Error('threw nothing');
    }
  }

  return {
    async run(one) {
      const { when, harmless, late, overwrites } = one;
      if (harmless === undefined && untouched(when) && !overwrites) return judgeHostile(one, await said(calm, one));
      const sequence = when === 'prefill' ? open() : base.fork();
      try {
        judgeHostile(one, await said(sequence, one));
        if (harmless === undefined)
          await expect(sequence.step(1)).rejects.toThrow(
            /^sequence: is unusable: it failed during an? (?:block|step|event): /,
          );
        else {
          for (const heads of sequence.kept())
            for (const row of heads) expect(row).toEqual([...new Set(row)].sort((a, b) => a - b));
          if (!late) expect((await next(sequence)).length).toBe(want.length);
        }
      } finally {
        sequence.destroy();
      }
      expect(sequence.memory.ledger).toMatchObject({ allocated: 0, live: 0 });
    },
    async end() {
      try {
        expect(await next(calm)).toEqual(want);
      } finally {
        for (const sequence of [calm, base]) sequence.destroy();
      }
      for (const sequence of [calm, base]) expect(sequence.memory.ledger).toMatchObject({ allocated: 0, live: 0 });
    },
  };
}

import type { EventTimes } from '../memory/active-policy.ts';

/** What a sequence has done. */
export interface SequenceStats {
  /** Events; prefill blocks; decode steps; speculative steps that were rolled back; passes of providers. */
  readonly counts: { events: number; blocks: number; steps: number; rolledBack: number; providerPasses: number };
  /** Milliseconds; score, settle and compact are parts of prefill and decode. */
  readonly times: EventTimes & { prefill: number; decode: number };
  /** Notes for the report, without duplicates. */
  readonly notes: string[];
}

export const emptyStats = (notes: readonly string[] = []): SequenceStats => ({
  counts: { events: 0, blocks: 0, steps: 0, rolledBack: 0, providerPasses: 0 },
  times: { prefill: 0, decode: 0, score: 0, settle: 0, compact: 0 },
  notes: [...notes],
});

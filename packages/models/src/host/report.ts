import type { DecodeOptions, Finish } from './options.ts';
import { memoryOf, waits } from './sequence.ts';
import type { Bytes, Sequence } from './sequence.ts';

/** What a run kept, held and spent. */
export interface Report {
  /** The policy with its options, readable back. */
  readonly policy: string;
  /** Slots per layer and KV head asked for; absent where nothing evicts. */
  readonly budget?: number;
  /** Slots that the last event allowed, `[layer][kvHead]`; empty where none ran. */
  readonly budgets: readonly (readonly number[])[];
  /** Positions kept by the last event (everything fed, where none ran), `[layer][kvHead]`, ascending. */
  readonly kept: readonly (readonly (readonly number[])[])[];
  readonly bytes: Bytes;
  /** Attention calls (fused), those that computed statistics beside it, events, prefill blocks, decode steps, passes of providers. */
  readonly counts: Readonly<Record<string, number>>;
  /** Milliseconds; score, settle and compact are parts of prefill and decode. */
  readonly times: Readonly<Record<string, number>>;
  /** Most slots that a head of any layer may hold, and why. */
  readonly bound: { readonly slots: number; readonly because: string };
  /** Most slots that one did hold. */
  readonly mostSlots: number;
  readonly notes: readonly string[];
  readonly finish: Finish;
  /** What `certify` concluded. */
  readonly certificates?: object;
}

/** @param options what the generation was asked for: they give the bound. */
export function report(sequence: Sequence, finish: Finish, options: DecodeOptions & { readonly block?: number | undefined }): Report {
  const { policy, budget, lastKept, lastBudgets, mostSlots, notes, counters, counts, times } = sequence;
  return {
    policy: policy.label === '' ? 'full' : policy.label,
    ...(budget !== undefined && { budget }),
    budgets: lastBudgets ?? [], kept: lastKept ?? sequence.kept(),
    bytes: sequence.bytes(), counts: { ...counters, ...counts }, times: { ...times },
    bound: bound(sequence, options), mostSlots, notes: [...notes], finish,
    ...(sequence.witness && { certificates: sequence.witness.conclude({ heads: sequence.model.config.queryHeads, layers: sequence.model.config.layers, steps: counts.steps, total: (id) => memoryOf(sequence).total(id) }) }),
  };
}

function bound({ policy, budget, promptLength, lastBudgets }: Sequence, { maxNewTokens = 64, block, every }: Parameters<typeof report>[2]): Report['bound'] {
  if (!policy.evicts || budget === undefined) return { slots: promptLength + maxNewTokens, because: 'nothing is evicted' };
  const most = Math.max(budget, ...(lastBudgets ?? []).flat());
  const c = every ?? policy.hooks('cadence')[0]?.every, m = block ?? policy.hooks('cadence')[0]?.block;
  const whole = waits(policy);
  const prefill = m === undefined || whole ? promptLength : Math.min(promptLength, most + m);
  const decoding = c === undefined ? most + maxNewTokens : most + c;
  return prefill >= decoding
    ? { slots: prefill, because: m === undefined || whole ? 'the whole prompt is prefilled before it is evicted' : `blocks of ${m} over a budget of ${most}` }
    : { slots: decoding, because: c === undefined ? `evicted once, at the end of prefill, and up to ${maxNewTokens} tokens follow` : `an event every ${c} tokens over a budget of ${most}` };
}

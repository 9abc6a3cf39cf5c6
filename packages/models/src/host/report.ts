import type { DecodeOptions, Finish } from './options.ts';
import { hostMemoryOf, memoryOf, waits } from './sequence.ts';
import type { Bytes, Sequence } from './sequence.ts';

/** What a run kept, held and spent. */
export interface Report {
  /** The policy with its options, readable back. */
  readonly policy: string;
  /** The policy that tokens were generated under, where it is another one, or its budget is. */
  readonly decodePolicy?: string;
  /** Slots per layer and KV head asked for; absent where nothing evicts. */
  readonly budget?: number;
  /** Slots that the last event allowed, `[layer][kvHead]`; empty where none ran. */
  readonly budgets: readonly (readonly number[])[];
  /** Positions kept by the last event (everything fed, where none ran), `[layer][kvHead]`, ascending. */
  readonly kept: readonly (readonly (readonly number[])[])[];
  readonly bytes: Bytes;
  /**
   * Attention calls (fused), those that computed statistics beside it, events, prefill blocks, decode steps, those that
   * ran ahead of the end and were taken back, passes of providers; slots that sliding windows had made unreachable and
   * that were freed.
   */
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
export function report(
  sequence: Sequence,
  finish: Finish,
  options: DecodeOptions & { readonly block?: number | undefined },
): Report {
  const { policy, budget, reading, lastKept, lastBudgets, mostSlots, notes, counters, counts, times } = sequence;
  return {
    policy: named(reading ?? { policy }),
    ...(reading && { decodePolicy: named({ policy }) }),
    ...(budget !== undefined && { budget }),
    budgets: lastBudgets ?? [],
    kept: lastKept ?? sequence.kept(),
    bytes: sequence.bytes(),
    counts: { ...counters, ...counts, unreachable: memoryOf(sequence).unreachable },
    times: { ...times },
    bound: bound(sequence, options),
    mostSlots,
    notes: [...notes],
    finish,
    ...(sequence.witness && {
      certificates: sequence.witness.conclude({
        heads: sequence.model.config.queryHeads,
        layers: sequence.model.config.layers,
        steps: counts.steps,
        frozen: frozen(sequence),
        total: (id) => hostMemoryOf(sequence).total(id),
      }),
    }),
  };
}

const named = ({ policy: { label } }: Pick<Sequence, 'policy'>): string => (label === '' ? 'full' : label);

/** Positions of the prompt that each layer took from the one below. */
function frozen(sequence: Sequence): number[] {
  const { promptLength } = sequence,
    { policy } = sequence.reading ?? sequence,
    { layers } = sequence.model.config,
    hook = policy.hooks('freeze')[0],
    memory = memoryOf(sequence);
  return Array.from({ length: layers }, (_, layer) => {
    const { sinks, below } = hook?.run(memory.at(layer)) ?? { sinks: 0, below: 0 };
    return layer === 0 ? 0 : Math.max(0, Math.min(below, promptLength - 1) - sinks);
  });
}

function bound(
  { policy, budget, reading, promptLength, lastBudgets }: Sequence,
  { maxNewTokens = 64, block, every }: Parameters<typeof report>[2],
): Report['bound'] {
  const most = Math.max(budget ?? 0, ...(lastBudgets ?? []).flat()),
    read = reading ?? { policy, budget, most };
  const [evictsRead, evicts] = [read, { policy, budget }].map((p) => p.policy.evicts && p.budget !== undefined);
  if (!evictsRead && !evicts) return { slots: promptLength + maxNewTokens, because: 'nothing is evicted' };
  const c = evicts ? (every ?? policy.hooks('cadence')[0]?.every) : undefined,
    m = evictsRead && !waits(read.policy) ? (block ?? read.policy.hooks('cadence')[0]?.block) : undefined;
  const held = evictsRead ? read.most : promptLength,
    above = Math.max(held, evicts ? most : 0);
  const prefill = m === undefined ? promptLength : Math.min(promptLength, held + m);
  const decoding = c === undefined ? held + maxNewTokens : above + c;
  return prefill >= decoding
    ? {
        slots: prefill,
        because:
          m === undefined
            ? 'the whole prompt is prefilled before it is evicted'
            : `blocks of ${m} over a budget of ${held}`,
      }
    : {
        slots: decoding,
        because:
          c === undefined
            ? `evicted once, at the end of prefill, and up to ${maxNewTokens} tokens follow`
            : `an event every ${c} tokens over ${evictsRead || !reading ? 'a budget' : 'a prompt or a budget'} of ${above}`,
      };
}

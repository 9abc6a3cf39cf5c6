import { expectObject, runGuarded, runFreeze } from '@kv/core/engine';
import { sumOf } from '@kv/core/shared';
import { numbersOf } from '../host/event.ts';
import { heldOf, heldSpans, type CacheHoldings, type HeldSpan } from '../memory/held.ts';
import { evicts, mostOf } from '../memory/active-policy.ts';
import { sizesAt } from '../memory/budget-sizes.ts';
import type { ActivePolicy, EventBudget } from '../memory/active-policy.ts';
import type { DecodeOptions, Finish } from '../options.ts';
import { waits } from '../sequence/policy-schedule.ts';
import type { Bytes } from '../ledger.ts';
import type { CacheUsage } from '../memory/memory.ts';
import type { Sequence } from '../sequence/sequence.ts';
import type { Observer } from '../memory/observer.ts';

/** What one run kept, its memory and its times. */
export interface Report {
  /** The policy with its options, as text that parses back. */
  readonly policy: string;
  /** The policy that tokens were generated under, if it or its budget differs. */
  readonly decodePolicy?: string;
  /** Slots per layer and KV head asked for; absent where nothing evicts. */
  readonly budget?: number;
  /** What a share was raised to, since the policy forces that many slots. */
  readonly raised?: number;
  /** Bytes of a cache that holds them: keys, values and positions of all layers and KV heads. */
  readonly budgetBytes?: number;
  /** Slots that the last event allowed, `[layer][kvHead]`; empty where none ran. */
  readonly budgets: readonly (readonly number[])[];
  /** Positions kept by the last event (everything fed, where none ran), `[layer][kvHead]`, ascending. */
  readonly kept: readonly (readonly (readonly number[])[])[];
  /** Levels at which these slots are stored, indexes among `LEVELS`; absent where no policy has demoted any. */
  readonly levels?: readonly (readonly (readonly number[])[])[];
  /** What the caches hold in the end of all that was fed, and what was dropped. */
  readonly held: CacheHoldings;
  /**
   * The same of every part of the text: of the units that the policy cut it into by position, such as `spans`, else of the
   * turns of the chat template; absent where there are neither.
   */
  readonly spans?: readonly HeldSpan[];
  /** Bytes of the caches and of what the policy records. */
  readonly bytes: Bytes;
  /** How keys and values are stored, and their bytes alone. */
  readonly cache: CacheUsage;
  /**
   * How often each thing was done: attention calls (`fused`) and those that also computed statistics (`statistics`),
   * events, blocks of the prompt, decode steps, speculative steps that were rolled back, passes of providers, slots
   * freed because a sliding window had made them unreachable.
   */
  readonly counts: Readonly<Record<string, number>>;
  /** Milliseconds; score, settle and compact are parts of prefill and decode. */
  readonly times: Readonly<Record<string, number>>;
  /** The most slots that a head of any layer may hold, and why. */
  readonly bound: { readonly slots: number; readonly because: string };
  /** The most slots that one held. */
  readonly mostSlots: number;
  /** Notes on budgets that could not be met as asked for, and on fallbacks. */
  readonly notes: readonly string[];
  /** Why the generation ended. */
  readonly finish: Finish;
  /** What `certify` concluded. */
  readonly certificates?: object;
}

/** @param options the options of the generation, which give the bound */
export function report(
  sequence: Sequence,
  finish: Finish,
  options: DecodeOptions & {
    readonly block?: number | undefined;
    /** Whether prompts come in blocks also under a policy that looks at the whole model, as in a chat. */
    readonly inBlocks?: boolean;
  },
): Report {
  const { active, memory, observer } = sequence,
    { notes, counts, times } = sequence.stats,
    { mostSlots, unreachable } = memory.progress,
    { context, observers } = memory.caches,
    { budget, last, prompt } = active;
  const spans = heldSpans(sequence, last?.units),
    sizes = sizesAt(memory.caches, active, memory.progress.length),
    contexts = Array.from({ length: memory.slots.layers }, (_, l) => memory.slots.layerContext(l, active));
  return {
    policy: named(prompt ?? active),
    ...(prompt && { decodePolicy: named(active) }),
    ...(budget &&
      (active.policy.evicts || prompt?.policy.evicts) && {
        ...budgetOf(budget),
        budgetBytes: budget.slots * sizes.bytesPerSlot + (sizes.fixedBytes ?? 0),
      }),
    budgets: last?.budgets ?? [],
    kept: last?.kept.map(numbersOf) ?? memory.slots.kept(),
    ...(last?.levels && { levels: last.levels.map((heads) => heads.map((of) => Array.from(of))) }),
    held: heldOf(sequence),
    ...(spans && { spans }),
    bytes: memory.ledger.bytes(),
    cache: memory.cache,
    counts: { ...context.counters, ...counts, unreachable },
    times: { ...times },
    bound: bound(sequence, options),
    mostSlots,
    notes: [...notes],
    finish,
    ...(observer &&
      observers && {
        certificates: concluded(observer, {
          // the mean of layers, where some slots are read by the heads of several
          heads: sumOf(contexts.map(({ queryHeads }) => queryHeads)) / contexts.length,
          layers: contexts.length,
          steps: counts.steps,
          frozen: frozen(sequence),
          total: (id) => observers.total(id),
        }),
      }),
  };
}

/** Returns the slots that were asked for, and what they were raised to. */
function budgetOf({ slots, requested = slots }: EventBudget): Pick<Report, 'budget' | 'raised'> {
  const asked = Math.max(1, Math.floor(requested));
  return slots > asked ? { budget: asked, raised: slots } : { budget: slots };
}

/** @throws KvError for an observer that fails, or concludes no object. */
function concluded(observer: Observer, run: Parameters<Observer['conclude']>[0]): object {
  const conclusion: unknown = runGuarded('observer', undefined, () => observer.conclude(run));
  expectObject({ name: 'observer' }, 'an object as its conclusion', conclusion);
  return conclusion;
}

const named = ({ policy: { label } }: ActivePolicy): string => (label === '' ? 'full' : label);

/** Returns the positions of the prompt whose keys each layer took from the one below. */
function frozen(sequence: Sequence): number[] {
  const { memory, active } = sequence,
    { promptLength } = memory.progress,
    { prompt = active } = active,
    hook = prompt.policy.hooks('freeze')[0];
  return Array.from({ length: memory.slots.layers }, (_, layer) => {
    const { sinks, below } = hook ? runFreeze(hook, memory.slots.layerContext(layer, prompt)) : { sinks: 0, below: 0 };
    return layer === 0 || !hook?.copies ? 0 : Math.max(0, Math.min(below, promptLength - 1) - sinks);
  });
}

function bound(
  { active, progress: { promptLength } }: Sequence,
  { maxNewTokens = 64, block, every, inBlocks = false }: Parameters<typeof report>[2],
): Report['bound'] {
  const { prompt: read = active, policy } = active,
    [evictsRead, evictsNow] = [evicts(read), evicts(active)];
  if (!evictsRead && !evictsNow) return { slots: promptLength + maxNewTokens, because: 'nothing is evicted' };
  const c = evictsNow ? (every ?? policy.hooks('cadence')[0]?.every) : undefined,
    m = evictsRead && (inBlocks || !waits(read.policy)) ? (block ?? read.policy.hooks('cadence')[0]?.block) : undefined;
  const held = evictsRead ? mostOf(read) : promptLength,
    above = Math.max(held, evictsNow ? mostOf(active) : 0);
  const prefill = m === undefined ? promptLength : Math.min(promptLength, held + m);
  const decoding = c === undefined ? held + maxNewTokens : above + Math.min(c, maxNewTokens);
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
            : `${c > maxNewTokens ? `up to ${maxNewTokens} tokens` : `an event every ${c} tokens`} over ${evictsRead || !active.prompt ? 'a budget' : 'a prompt or a budget'} of ${above}`,
      };
}

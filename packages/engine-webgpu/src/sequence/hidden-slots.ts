import { runView } from '@kv/core/engine';
import type { AnySignal, LayerContext, Tensor } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import type { Commands, Scope } from '@kv/gpu';
import type { DeviceAttention } from '../attention.ts';
import type { TokenChunk } from './token-chunk.ts';

/** Checks of what a view's pieces promised about numbers on the device. */
export type ViewChecks = NonNullable<ReturnType<typeof runView>['checks']>;

/**
 * Slots hidden from queries in addition to causality and the layer's window: bounds by position, and a mask that is 0
 * where a slot is hidden.
 */
export interface HiddenSlots {
  readonly bounds: readonly { readonly lower: (position: number) => number; readonly sinks: number }[];
  readonly mask?: Tensor;
  /** Most slots of a KV head that it shows, if a view says so. */
  readonly shown?: number;
  /** Checks of the numbers by which it was chosen, read with the results of the pass. */
  readonly checks: ViewChecks;
}

/** Returns what the policy's views hide in a layer now. Masks stay on the device, combined where all mark. */
export function hiddenSlots(
  policy: CompiledPolicy,
  phase: 'prefill' | 'decode',
  at: LayerContext,
  read: (signal: AnySignal) => unknown,
  { ops }: Scope,
  write: (needs: readonly AnySignal[], state: ReadonlyMap<string, Tensor>) => void,
): HiddenSlots {
  const bounds: HiddenSlots['bounds'][number][] = [],
    promised: ViewChecks[number][] = [];
  let all: Tensor | undefined,
    shown = Infinity;
  for (const hook of policy.hooks('view')) {
    if (hook.during !== 'both' && hook.during !== phase) continue;
    const { mask, sinks = 0, lower, state, checks = [] } = runView(hook, { at, ops, read });
    if (state) write(hook.needs, state);
    promised.push(...checks);
    if (mask) all = all ? ops.where(all, mask, 0) : mask; // a product of two marks may be 0 or no number
    // query heads choose for themselves, and the newest slot is seen whatever they choose
    if (mask && hook.chooses) shown = Math.min(shown, 1 + (hook.chooses.budget * at.queryHeads) / at.kvHeads);
    if (lower) bounds.push({ lower, sinks });
  }
  return { bounds, checks: promised, ...(all && { mask: all }), ...(shown < Infinity && { shown }) };
}

/** What views hide from a chunk's queries. */
type HiddenFrom = Pick<DeviceAttention, 'rows' | 'views' | 'ranged' | 'mask' | 'shown'>;

/** Returns positions of queries, and what views hide from them: by position, as pairs in `rows`, and by a mask. */
export function hiddenFrom(
  commands: Commands,
  { at, positions, m }: TokenChunk,
  { bounds, mask, shown }: HiddenSlots,
): HiddenFrom {
  const marks = { ...(mask && { mask }), ...(shown !== undefined && { shown }) },
    hiding = bounds
      .map(({ lower, sinks }) => ({ sinks, first: Array.from(at, lower) }))
      .filter(({ sinks, first }) => first.some((p) => p > sinks)),
    views = hiding.length;
  if (views === 0) return { rows: positions, views, ...marks };
  const rows = Array.from(at, (p, r) => [p, ...hiding.flatMap(({ sinks, first }) => [sinks, first[r]])]),
    last = at.at(-1) ?? 0,
    ranged = Math.min(...hiding.map(({ sinks, first }) => sinks + 1 + last - Math.min(last, ...first)));
  return { rows: commands.upload(Uint32Array.from(rows.flat()), [m, 1 + 2 * views]), views, ranged, ...marks };
}

import type { FreezeHook } from '@kv/core';
import { frozenRows, viewsActing, type HostState, type LayerCache, type PassOptions } from '@kv/engine';
import { boundsOf, joinedContext } from './shown-bounds.ts';
import type { ShownBounds } from './shown-bounds.ts';

/** Rows of a block, or positions: [from, to). */
export type RowRange = readonly [from: number, to: number];

/** What hooks do within the layers to a block of the prompt. */
export interface BlockHooks {
  /** Bounds of what the rows of each layer see; all of them apply. */
  readonly bounds: readonly (readonly ShownBounds[])[];
  /** Rows that each layer leaves as they are; its keys and values of them are appended all the same. */
  readonly frozen: readonly RowRange[];
  /** Whether frozen rows take the keys and values of the layer below. */
  readonly copies: boolean;
}

/** Returns whether some hook acts within the layers of a prompt. */
export const hooksPrompt = ({ policy }: PassOptions['active']): boolean =>
  policy.hooks('freeze').length > 0 || viewsActing(policy, 'prefill').length > 0;

/**
 * Asks a policy's hooks what they do to the next m tokens of a prompt; undefined where a view shows slots by more than
 * bounds that it knows without a signal.
 *
 * @throws KvError for a hook that breaks its promises
 */
export function blockHooks(caches: HostState, m: number, active: PassOptions['active']): BlockHooks | undefined {
  const { layers, slots, context } = caches,
    { progress } = context,
    views = viewsActing(active.policy, 'prefill'),
    freeze: FreezeHook | undefined = active.policy.hooks('freeze')[0],
    positions = Uint32Array.from({ length: m }, (_, i) => progress.length + i),
    bounds: ShownBounds[][] = [],
    frozen: RowRange[] = [];
  if (views.some(({ needs }) => needs.length > 0)) return undefined;
  for (const [l, { ring }] of layers.entries()) {
    const before = slots.layerContext(l, active),
      at = { ...before, length: before.length + m };
    frozen.push(freeze && l > 0 ? frozenRows(freeze, at, positions, ring?.window ?? 1) : [0, 0]);
    // views are asked once the keys have joined the cache
    const joined = joinedContext(caches, l, active, m),
      of: ShownBounds[] = [];
    for (const view of views) {
      const shown = boundsOf(view, joined, caches);
      if (shown === undefined) return undefined;
      of.push(...shown);
    }
    bounds.push(of);
  }
  return { bounds, frozen, copies: freeze?.copies ?? false };
}

/**
 * Returns what bounds hide from queries at these positions: how many ranges a query, then of each query those ranges of
 * positions [from, until), empty ones at the end; undefined where nothing is hidden.
 */
export function hiddenRanges(bounds: readonly ShownBounds[], positions: Uint32Array): Uint32Array | undefined {
  const all: (readonly RowRange[])[] = [];
  let most = 0;
  for (const t of positions) {
    const ranges: RowRange[] = [];
    for (const { sinks, lower } of bounds) {
      const until = Math.min(t, lower(t));
      if (sinks < until) ranges.push([sinks, until]);
    }
    all.push(ranges.length > 1 ? joined(ranges) : ranges);
    most = Math.max(most, all.at(-1)!.length); // just pushed
  }
  if (most === 0) return undefined;
  const words = new Uint32Array(1 + 2 * most * positions.length);
  words[0] = most;
  for (const [r, ranges] of all.entries()) words.set(ranges.flat(), 1 + 2 * most * r);
  return words;
}

/** Returns ranges with those that overlap or touch as one. */
function joined(ranges: readonly RowRange[]): readonly RowRange[] {
  const out: [number, number][] = [];
  for (const [from, until] of ranges.toSorted(([a], [b]) => a - b)) {
    const last = out.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], until);
    else out.push([from, until]);
  }
  return out;
}

/** Keys and values of some rows, `[G, rows, d]`. */
export interface RowKeys {
  readonly k: Float32Array;
  readonly v: Float32Array;
}

/** Copies keys and values of rows [from, to) of the newest m out of a layer's cache. */
export function newestRows(cache: LayerCache, m: number, [from, to]: RowRange): RowKeys {
  const { heads, headDim: d, lengths } = cache,
    size = (to - from) * d,
    k = new Float32Array(heads * size),
    v = new Float32Array(heads * size);
  for (let g = 0; g < heads; g++) {
    const at = lengths[g] - m + from;
    k.set(cache.read('keys', g, at, to - from), g * size);
    v.set(cache.read('values', g, at, to - from), g * size);
  }
  return { k, v };
}

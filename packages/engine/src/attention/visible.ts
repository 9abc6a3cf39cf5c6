import { KvError } from '@kv/core';
import type { CacheView } from '../cache/layer-cache.ts';
import { countBelow } from '@kv/core/shared';
import type { ScoreRows } from './row-engine.ts';

/** Limits on what queries see, in addition to causality. All of them apply; a query always sees its own slot. */
export interface SlotVisibility {
  /** 1 where a slot is visible, `[rows, n]`: rows are query heads, KV heads or one, n the longest head's slots. */
  readonly mask?: Uint8Array;
  /** Positions below this are visible regardless of `lower`. @defaultValue 0 */
  readonly sinks?: number;
  /** Returns the first visible position for a query's position. */
  readonly lower?: (queryPosition: number) => number;
}

/** Hides slots of one query row by writing -Infinity over its scores of [0, hi). */
export type SlotMasker = (
  scores: ScoreRows,
  row: number,
  queryPosition: number,
  hi: number,
  queryHead: number,
  kvHead: number,
) => void;

/**
 * Returns what hides the slots that any of these views hides in this cache. @throws KvError if a mask fits neither rows
 * nor slots.
 */
export function hider(
  visible: SlotVisibility | readonly SlotVisibility[] | undefined,
  cache: CacheView,
  queryHeads: number,
): SlotMasker | undefined {
  const views = visible === undefined ? [] : isList(visible) ? visible : [visible];
  const hides = views.flatMap((view) => one(view, cache, queryHeads) ?? []);
  return hides.length === 0 ? undefined : (...row) => hides.forEach((hide) => hide(...row));
}

const isList = (visible: SlotVisibility | readonly SlotVisibility[]): visible is readonly SlotVisibility[] =>
  Array.isArray(visible);

function one(visible: SlotVisibility, cache: CacheView, queryHeads: number): SlotMasker | undefined {
  if (visible.mask === undefined && visible.lower === undefined) return undefined;
  const { mask, sinks = 0, lower } = visible;
  const n = cache.lengths.reduce((a, b) => Math.max(a, b), 0);
  const rows = mask === undefined || n === 0 ? 1 : mask.length / n;
  if (rows !== 1 && rows !== queryHeads && rows !== cache.heads)
    throw new KvError(
      'attend',
      `a mask must have 1, ${cache.heads} or ${queryHeads} rows of ${n} slots, got ${mask?.length} numbers`,
    );
  return ({ data, at, stride }, row, queryPosition, hi, h, g) => {
    const positions = cache.positions.subarray(g * cache.capacity, g * cache.capacity + hi);
    const base = at + row * stride;
    const own = hi > 0 && positions[hi - 1] === queryPosition ? hi - 1 : hi;
    if (mask !== undefined) {
      const from = (rows === 1 ? 0 : rows === queryHeads ? h : g) * n;
      for (let j = 0; j < own; j++) if (mask[from + j] === 0) data[base + j] = -Infinity;
    }
    if (lower !== undefined) {
      const first = Math.min(own, countBelow(positions, lower(queryPosition)));
      data.fill(-Infinity, base + Math.min(first, countBelow(positions, sinks)), base + first);
    }
  };
}

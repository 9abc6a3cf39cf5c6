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

/** What one row sees of the slots before its own: those of some ranges, and of these what a mask shows, if there is one. */
interface ShownRow {
  readonly own: number;
  readonly ranges: readonly (readonly [from: number, until: number])[];
  readonly shown: Uint8Array | undefined;
}

/**
 * Returns what a query sees whose own slot is the newest of every head: of each KV head, or of each query head where a
 * mask has a row for it.
 */
function shownRows(
  views: readonly SlotVisibility[],
  cache: CacheView,
  queryHeads: number,
  queryPosition: number,
): readonly ShownRow[] {
  const { heads, capacity } = cache,
    n = longest(cache),
    masks = views.flatMap(({ mask }) => (mask ? { mask, rows: maskRows(mask, n, heads, queryHeads) } : [])),
    bounds = views.flatMap(({ sinks = 0, lower }) => (lower ? { sinks, first: lower(queryPosition) } : [])),
    lists = masks.some(({ rows }) => rows === queryHeads) ? queryHeads : heads;
  return Array.from({ length: lists }, (_, i) => {
    const g = Math.floor((i * heads) / lists),
      own = cache.lengths[g] - 1,
      positions = cache.positions.subarray(g * capacity, g * capacity + own),
      hidden = bounds.map(({ sinks, first }) => [countBelow(positions, sinks), countBelow(positions, first)] as const);
    const shown = allOf(masks.map(({ mask, rows }) => mask.subarray(Math.floor((i * rows) / lists) * n)));
    return { own, ranges: shownRanges(hidden, own), shown };
  });
}

/**
 * Counts the slots that query heads see, all together, where the query's own slot is the newest of every head.
 * @throws KvError if a mask fits neither rows nor slots
 */
export function countShown(
  views: readonly SlotVisibility[],
  cache: CacheView,
  queryHeads: number,
  queryPosition: number,
): number {
  const rows = shownRows(views, cache, queryHeads, queryPosition);
  let slots = 0;
  for (const { ranges, shown } of rows) {
    slots++;
    for (const [from, until] of ranges)
      if (shown === undefined) slots += until - from;
      else for (let j = from; j < until; j++) slots += Number(shown[j] !== 0);
  }
  return (queryHeads / rows.length) * slots;
}

/**
 * Lists the slots that a query sees whose own slot is the newest of every head: of each KV head, or of each query head
 * where a mask has a row for it. Slots ascend. Writes each list to a row of `to`, rows `stride` numbers apart.
 *
 * @returns the lengths of the lists
 * @throws KvError if a mask fits neither rows nor slots
 */
export function listShown(
  views: readonly SlotVisibility[],
  cache: CacheView,
  queryHeads: number,
  queryPosition: number,
  to: Uint32Array,
  stride: number,
): readonly number[] {
  return shownRows(views, cache, queryHeads, queryPosition).map(({ own, ranges, shown }, i) => {
    const list = to.subarray(i * stride, (i + 1) * stride);
    let end = 0;
    for (const [from, until] of ranges)
      for (let j = from; j < until; j++) {
        list[end] = j;
        if (shown === undefined || shown[j] !== 0) end++;
      }
    list[end++] = own;
    return end;
  });
}

/** Returns what all of these masks show; undefined without any. */
const allOf = ([first, ...more]: readonly Uint8Array[]): Uint8Array | undefined =>
  more.length === 0 ? first : first.map((shown, j) => Number(shown !== 0 && more.every((mask) => mask[j] !== 0)));

/** Returns the ranges of [0, end) that none of these ranges [from, until) hides. */
function shownRanges(
  hidden: readonly (readonly [from: number, until: number])[],
  end: number,
): (readonly [number, number])[] {
  let shown: (readonly [number, number])[] = [[0, end]];
  for (const [from, until] of hidden)
    if (from < until)
      shown = shown.flatMap(([a, b]) => [[a, Math.min(b, from)] as const, [Math.max(a, until), b] as const]);
  return shown.filter(([a, b]) => a < b);
}

const longest = ({ lengths }: CacheView): number => lengths.reduce((a, b) => Math.max(a, b), 0);

/** Returns the rows of a mask of n slots. @throws KvError if they are neither one nor heads */
function maskRows(mask: Uint8Array, n: number, heads: number, queryHeads: number): number {
  const rows = n === 0 ? 1 : mask.length / n;
  if (rows !== 1 && rows !== queryHeads && rows !== heads)
    throw new KvError(
      'attend',
      `a mask must have 1, ${heads} or ${queryHeads} rows of ${n} slots, got ${mask.length} numbers`,
    );
  return rows;
}

function one(visible: SlotVisibility, cache: CacheView, queryHeads: number): SlotMasker | undefined {
  if (visible.mask === undefined && visible.lower === undefined) return undefined;
  const { mask, sinks = 0, lower } = visible;
  const n = longest(cache);
  const rows = mask === undefined ? 1 : maskRows(mask, n, cache.heads, queryHeads);
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

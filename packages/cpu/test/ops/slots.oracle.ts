import type { NdArray } from 'ndarray';
import nops from 'ndarray-ops';
import { each, float64, validOf, zeros } from './ops.oracle.ts';
import type { Rows } from './ops.oracle.ts';

type F64 = NdArray<Float64Array>;
const row = (x: Rows, r: number): number[] => Array.from({ length: validOf(x, r) }, (_, i) => x.array.get(r, i));

/** Mean or max over the participating slots within half a kernel; the mean divides by the whole kernel. */
export function pool(x: Rows, kernel: number, kind: 'mean' | 'max', except: number): F64 {
  const from = float64(x.array);
  return each(zeros(x.array.shape), (r, i) => {
    const end = validOf(x, r) - except;
    if (i >= end) return from.get(r, i);
    const low = Math.max(0, i - (kernel - 1) / 2),
      part = from
        .pick(r, null)
        .lo(low)
        .hi(Math.min(end, i + (kernel - 1) / 2 + 1) - low);
    return kind === 'max' ? nops.sup(part) : nops.sum(part) / kernel;
  });
}
/** Number of entries ranked before: higher ones, and equal ones of a lower slot, then of a lower row. */
export function rank(x: Rows, over: 'row' | 'all'): F64 {
  const all = Array.from({ length: x.array.shape[0] }, (_, r) => row(x, r));
  return each(zeros(x.array.shape), (r, i) => {
    const mine = all[r][i];
    if (mine === undefined) return 0;
    let before = 0;
    all.forEach((other, q) => {
      if (over === 'all' || q === r)
        other.forEach((v, j) => {
          if (v > mine || (v === mine && (j < i || (j === i && q < r)))) before++;
        });
    });
    return before;
  });
}
export const lastSlots = (like: Rows, w: number): F64 =>
  each(zeros(like.array.shape.slice(0, 2)), (r, i) => Number(i < validOf(like, r) && i >= validOf(like, r) - w));

export interface Masks {
  readonly forced?: NdArray | undefined;
  readonly banned?: NdArray | undefined;
  readonly active?: NdArray | undefined;
}
/** Picks one slot at a time: all forced ones, then the best open one while the budget lasts. */
export function select(scores: Rows, budgets: readonly number[], { forced, banned, active }: Masks): number[][] {
  const rows = budgets.length,
    of = (x: NdArray, r: number): number => Math.floor(r / (rows / x.shape[0]));
  return budgets.map((budget, r) => {
    if (active && active.get(of(active, r), 0) === 0) return [];
    const s = row(scores, of(scores.array, r)),
      kept = new Set(s.flatMap((_, i) => (forced && forced.get(of(forced, r), i) !== 0 ? [i] : [])));
    for (;;) {
      const open = s.flatMap((_, i) => (kept.has(i) || (banned && banned.get(of(banned, r), i) !== 0) ? [] : [i]));
      if (kept.size >= budget || open.length === 0) break;
      kept.add(open.reduce((best, i) => (s[i] > s[best] ? i : best)));
    }
    return [...kept].sort((a, b) => a - b);
  });
}
/** The sum, mean or maximum of the slots of each group; 0 for an empty group. */
export const groupSlots = (kind: 'mean' | 'sum' | 'max', x: Rows, groups: NdArray, count: number): F64 =>
  each(zeros([x.array.shape[0], count]), (r, g) => {
    const own = Math.floor(r / (x.array.shape[0] / groups.shape[0])),
      members = row(x, r).filter((_, i) => groups.get(own, i) === g);
    if (members.length === 0) return 0;
    return kind === 'max'
      ? Math.max(...members)
      : members.reduce((a, b) => a + b, 0) / (kind === 'mean' ? members.length : 1);
  });

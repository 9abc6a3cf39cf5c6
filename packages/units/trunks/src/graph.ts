import type { CoAttention } from './edges.ts';
import { sumOf } from '@kv/core/shared';

const PRUNE = 0.05;

/** Pairs of units a < b with their weight above 0.05, ascending in b, then a. */
export interface UnitGraph {
  readonly a: readonly number[];
  readonly b: readonly number[];
  readonly weight: readonly number[];
}

/**
 * Returns the graph of the units that token edges link: mean weight times sqrt(edges / (|a| |b|)), in either direction
 * and as a multiset. Eq. 24 and 25.
 */
export function unitGraph({ from, to, weight }: CoAttention, unitOf: Uint32Array, count: number): UnitGraph {
  const sizes = new Uint32Array(count),
    pairs = new Map<number, [sum: number, edges: number]>();
  for (const u of unitOf) sizes[u]++;
  for (let e = 0; e < from.length; e++) {
    const u = unitOf[from[e]],
      v = unitOf[to[e]];
    if (u === undefined || v === undefined || u === v) continue;
    const key = Math.max(u, v) * count + Math.min(u, v),
      pair = pairs.get(key) ?? [0, 0];
    pair[0] += weight[e];
    pair[1]++;
    pairs.set(key, pair);
  }
  const kept = [...pairs]
    .map(([key, [sum, edges]]) => {
      const a = key % count,
        b = Math.floor(key / count);
      return { a, b, weight: (sum / edges) * Math.sqrt(edges / (sizes[a] * sizes[b])) };
    })
    .filter(({ weight: w }) => w > PRUNE)
    .sort((x, y) => x.b - y.b || x.a - y.a);
  return { a: kept.map((p) => p.a), b: kept.map((p) => p.b), weight: kept.map((p) => p.weight) };
}

/**
 * Returns the place of a pair of units a < b among all pairs, ascending in b, then a: more units leave the places of
 * earlier pairs as they are.
 */
const placeOf = (a: number, b: number): number => (b * (b - 1)) / 2 + a;
/** Returns the number of pairs of `count` units; a single unit counts as a pair with itself. */
const pairsOf = (count: number): number => Math.max(1, placeOf(0, count));

/** Returns the weights of all pairs of `count` units, 0 without an edge. */
export function pairWeights({ a, b, weight }: UnitGraph, count: number): Float32Array {
  const out = new Float32Array(pairsOf(count));
  weight.forEach((w, e) => (out[placeOf(a[e], b[e])] = w));
  return out;
}
/** Returns the units of all pairs of `count` units. */
export function pairEnds(count: number): { readonly a: Uint32Array; readonly b: Uint32Array } {
  const out = { a: new Uint32Array(pairsOf(count)), b: new Uint32Array(pairsOf(count)) };
  for (let high = 1; high < count; high++)
    for (let low = 0; low < high; low++) {
      out.a[placeOf(low, high)] = low;
      out.b[placeOf(low, high)] = high;
    }
  return out;
}

/** Returns the weighted degree of every unit, standardised and passed through a logistic. Eq. 26 and 27. */
export function centralities({ a, b, weight }: UnitGraph, count: number, steepness: number): Float32Array {
  const degree = new Float64Array(count);
  weight.forEach((w, e) => {
    degree[a[e]] += w;
    degree[b[e]] += w;
  });
  const mean = sumOf(degree) / count,
    std = Math.sqrt(degree.reduce((x, y) => x + (y - mean) ** 2, 0) / count);
  return Float32Array.from(degree, (x) => 1 / (1 + Math.exp((-steepness * (x - mean)) / (std < 1e-8 ? 1 : std))));
}

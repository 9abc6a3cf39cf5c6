import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

type Vector = NdArray<Float64Array>;
const inner = (a: Vector, b: Vector): number => {
  const product = ndarray(new Float64Array(a.shape[0]), a.shape);
  ops.mul(product, a, b);
  return ops.sum(product);
};
const vector = (x: readonly number[]): Vector => ndarray(Float64Array.from(x), [x.length]);

export interface Settings {
  readonly block: number;
  readonly threshold: number;
  readonly dilation: number;
  /** @defaultValue a third of the middle */
  readonly strongest?: number | undefined;
  readonly sinks: number;
  readonly local: number;
  readonly budget: number;
  readonly compare: 'queries' | 'unrotated' | 'keys' | 'hidden';
  readonly among: 'any' | 'retrievers';
}
interface Entry {
  readonly compared: Vector;
  readonly middle: readonly number[];
  readonly retrieved: boolean;
}

/**
 * Section IV-A for one head, step by step: `queries[i]` is asked at step `first + i` over the first `sizes[i]` of
 * `keys`; where these are not one more than before, a block begins. What each query sees, ascending, and how many
 * retrieved.
 */
export function cisOracle(
  queries: readonly (readonly number[])[],
  keys: readonly (readonly number[])[],
  sizes: readonly number[],
  first: number,
  { block, threshold, dilation, strongest, sinks, local, budget, compare, among }: Settings,
  /** The query at a position before rotation. */
  before: (query: readonly number[], position: number) => readonly number[] = (query) => query,
  /** What the layer reads at each step. */
  hidden: readonly (readonly number[])[] = [],
): { seen: number[][]; retrieved: number } {
  let entries: Entry[] = [],
    retrieved = 0;
  const seen = queries.map((raw, i) => {
    if ((first + i) % block === 0 || sizes[i] !== sizes[i - 1] + 1) entries = [];
    const n = sizes[i],
      query = vector(raw),
      compared = {
        queries: () => query,
        keys: () => vector(keys[n - 1]),
        unrotated: () => vector(before(raw, n - 1)),
        hidden: () => vector(hidden[i]),
      }[compare](),
      fixed = Array.from({ length: n }, (_, p) => p).filter((p) => p < sinks || p >= n - local);
    const like = entries
      .filter(
        (e) =>
          (among === 'any' || e.retrieved) &&
          inner(compared, e.compared) / Math.sqrt(inner(compared, compared) * inner(e.compared, e.compared)) >
            threshold,
      )
      .at(-1);
    if (like) {
      entries.push({ compared, middle: like.middle, retrieved: false });
      const set = new Set([...fixed, ...like.middle]);
      for (const p of like.middle.slice(0, strongest ?? Math.floor(like.middle.length / 3)))
        for (let q = p - dilation; q <= p + dilation; q++) if (q >= 0 && q < n) set.add(q);
      return [...set].sort((a, b) => a - b);
    }
    retrieved++;
    const free = Array.from({ length: n }, (_, p) => p).filter((p) => !fixed.includes(p)),
      score = free.map((p) => inner(query, vector(keys[p])));
    const middle = free
      .map((p, at) => ({ p, s: score[at] }))
      .sort((a, b) => b.s - a.s || a.p - b.p)
      .slice(0, Math.max(0, budget - fixed.length))
      .map(({ p }) => p);
    entries.push({ compared, middle, retrieved: true });
    return [...fixed, ...middle].sort((a, b) => a - b);
  });
  return { seen, retrieved };
}

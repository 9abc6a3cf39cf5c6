import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

export type Vector = NdArray<Float64Array>;
const inner = (a: Vector, b: Vector): number => {
  const p = ndarray(new Float64Array(a.shape[0]), a.shape as number[]);
  ops.mul(p, a, b);
  return ops.sum(p);
};
const softmax = (x: readonly number[]): number[] => {
  const top = Math.max(...x),
    e = x.map((v) => Math.exp(v - top)),
    sum = e.reduce((a, b) => a + b, 0);
  return e.map((v) => v / sum);
};
export const average = (x: readonly number[]): number => x.reduce((a, b) => a + b, 0) / x.length;

/** Causal attention row of one query at position `t`. */
export const attentionOracle = (
  q: Vector,
  keys: readonly Vector[],
  positions: readonly number[],
  t: number,
  { scale = 1 / Math.sqrt(q.shape[0]), sink = -Infinity }: { readonly scale?: number; readonly sink?: number } = {},
): number[] => {
  const seen = positions.map((p) => p <= t);
  if (!seen.some(Boolean)) return positions.map(() => (sink === -Infinity ? 1 / positions.length : 0));
  return softmax([...keys.map((k, i) => (seen[i] ? inner(q, k) * scale : -Infinity)), sink]).slice(0, -1);
};

/** R-KV's importance of one KV head: queries by head of the group; slots before the window only. */
export function importanceOracle(
  heads: readonly (readonly Vector[])[],
  keys: readonly Vector[],
  window: number,
  kernel: number,
): number[] {
  const end = Math.max(0, keys.length - window),
    count = heads[0].length;
  const rows = Array.from({ length: count }, (_, i) =>
    softmax(keys.slice(0, end).map((k) => Math.max(...heads.map((h) => inner(h[i], k) / Math.sqrt(k.shape[0]))))),
  );
  const mean = Array.from({ length: end }, (_, j) => average(rows.map((r) => r[j])));
  return keys.map((_, j) =>
    j >= end ? 0 : Math.max(...mean.slice(Math.max(0, j - (kernel - 1) / 2), Math.min(end, j + (kernel + 1) / 2))),
  );
}

/** R-KV's redundancy of one KV head, from the whole matrix of cosines. */
export function redundancyOracle(keys: readonly Vector[], near: number): number[] {
  const n = keys.length,
    unit = keys.map((k) => {
      const u = ndarray(k.data.slice(), k.shape as number[]);
      ops.mulseq(u, 1 / (ops.norm2(k) + 1e-8));
      return u;
    });
  const C = unit.map((a, i) => unit.map((b, j) => (i === j ? 0 : inner(a, b))));
  for (const row of C)
    row[
      Math.max(
        0,
        row.findLastIndex((c) => c > near),
      )
    ] = 0;
  return softmax(Array.from({ length: n }, (_, j) => average(C.map((row) => row[j]))));
}

/** DefensiveKV of one KV head from attention rows `[head][query][slot]`. */
export function defensiveOracle(
  rows: readonly (readonly (readonly number[])[])[],
  window: number,
  kernel: number,
): number[] {
  const n = rows[0][0].length,
    end = Math.max(0, n - window),
    half = (kernel - 1) / 2;
  const pooled = rows.flat().map((row) => {
    const cut = row.slice(0, end),
      smooth = cut.map((_, i) => cut.slice(Math.max(0, i - half), i + half + 1).reduce((a, b) => a + b, 0) / kernel),
      mass = cut.reduce((a, b) => a + b, 0),
      now = smooth.reduce((a, b) => a + b, 0);
    return smooth.map((x) => (now === 0 ? 0 : (x / now) * mass));
  });
  const worst = Array.from({ length: end }, (_, i) => Math.max(...pooled.map((r) => r[i])));
  return Array.from({ length: n }, (_, i) => (i < end ? Math.max(worst[i], average(worst)) : 0));
}

/** Scissorhands of one query head: share of rows in which a slot has more than 1 / visible. */
export const scissorhandsOracle = (rows: readonly (readonly number[])[], visible: readonly number[]): number[] =>
  rows[0].map((_, i) => rows.filter((r, t) => r[i] > 1 / visible[t]).length / rows.length);

/**
 * Finch of one query head: rows of the question's queries, oldest first, each times how many slots stand before its
 * own.
 */
export const finchOracle = (
  rows: readonly (readonly number[])[],
  positions: readonly number[],
  length: number,
): number[] => {
  const before = rows.map((_, i) => positions.filter((p) => p < length - rows.length + i).length);
  return positions.map((_, j) => average(rows.map((row, i) => row[j] * before[i])));
};

/** The newest `each` rows of every phase, mean by slot, and of these the largest: rows oldest first. */
export function phasesOracle(rows: readonly (readonly number[])[], phases: readonly string[], each: number): number[] {
  const means = [...new Set(phases)].map((phase) => {
    const own = rows.filter((_, i) => phases[i] === phase).slice(-each);
    return rows[0].map((_, j) => average(own.map((row) => row[j])));
  });
  return rows[0].map((_, j) => Math.max(...means.map((mean) => mean[j])));
}

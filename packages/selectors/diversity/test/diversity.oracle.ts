import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

type Matrix = NdArray<Float64Array>;

/** Eq. 1: u_i the mean of value vectors of token i, `vectors[i]` one a layer and head; v_i = u_i / (|u_i| + ε). */
export function signaturesOracle(vectors: readonly (readonly (readonly number[])[])[]): Matrix {
  const d = vectors[0][0].length,
    out = ndarray(new Float64Array(vectors.length * d), [vectors.length, d]);
  vectors.forEach((held, i) => {
    const row = out.pick(i, null);
    for (const vector of held) ops.addeq(row, ndarray(Float64Array.from(vector), [d]));
    ops.divseq(row, held.length);
    ops.divseq(row, ops.norm2(row) + 1e-8);
  });
  return out;
}

/** Algorithm 1 as printed, with its n x n matrix of cosines; `forced` slots are picked before it starts. Ascending. */
export function alphaOracle(
  s: readonly number[],
  v: Matrix,
  k: number,
  lambda: number,
  forced: readonly number[] = [],
  banned: readonly number[] = [],
): number[] {
  const n = s.length,
    d = v.shape[1];
  const sims = ndarray(new Float64Array(n * n), [n, n]),
    product = ndarray(new Float64Array(d), [d]);
  for (let i = 0; i < n; i++)
    for (let j = 0; j < n; j++) {
      ops.mul(product, v.pick(i, null), v.pick(j, null));
      sims.set(i, j, ops.sum(product));
    }
  const m = ndarray(new Float64Array(n), [n]),
    picked: number[] = [];
  const pick = (i: number): void => {
    picked.push(i);
    ops.maxeq(m, sims.pick(i, null));
  };
  forced.forEach(pick);
  while (picked.length < Math.min(k, n - banned.length)) {
    const a = s.map((x, i) => (picked.includes(i) || banned.includes(i) ? -Infinity : x - lambda * m.get(i)));
    pick(a.indexOf(Math.max(...a)));
  }
  return picked.sort((x, y) => x - y);
}

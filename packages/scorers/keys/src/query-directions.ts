import type { QFilters } from './qfilter.ts';

/** Squarings of the second moment; a direction weaker by 1 in 10^7 then vanishes. */
const SQUARINGS = 28;

/**
 * Returns an accumulator of one layer's queries as attention reads them, `[H, m, d]`, which gives its filters: minus
 * the main right-singular vector of each query head's queries, signed so that their mean along it is positive, mean
 * over the head group.
 *
 * @remarks Godey et al. 2025, arXiv:2503.02812, section 4. Queries are taken after rotation, since filters are
 * multiplied with cached keys. The main vector is that of the second moment, found by squaring it: O(28 H d³).
 */
export function queryDirections(
  queryHeads: number,
  kvHeads: number,
  dim: number,
): { add(q: Float32Array): void; take(): QFilters } {
  const sums = new Float64Array(queryHeads * dim),
    moments = Array.from({ length: queryHeads }, () => new Float64Array(dim * dim));
  return {
    add(q) {
      const m = q.length / (queryHeads * dim);
      for (const [h, moment] of moments.entries())
        for (let t = 0; t < m; t++) {
          const at = (h * m + t) * dim;
          for (let a = 0; a < dim; a++) {
            sums[h * dim + a] += q[at + a];
            for (let b = 0; b < dim; b++) moment[a * dim + b] += q[at + a] * q[at + b];
          }
        }
    },
    take() {
      const filters = new Float32Array(kvHeads * dim),
        group = queryHeads / kvHeads;
      for (const [h, moment] of moments.entries()) {
        const main = mainDirection(moment, dim),
          along = main.reduce((s, x, a) => s + x * sums[h * dim + a], 0),
          to = Math.floor(h / group) * dim;
        main.forEach((x, a) => {
          filters[to + a] -= (Math.sign(along) * x) / group;
        });
      }
      return { kvHeads, headDim: dim, filters };
    },
  };
}

/** The unit vector of the largest eigenvalue of a symmetric positive semidefinite matrix, 0 for the matrix of zeros. */
function mainDirection(moment: Float64Array, dim: number): Float64Array {
  let power = scaled(moment);
  for (let i = 0; i < SQUARINGS; i++) {
    const next = new Float64Array(dim * dim);
    for (let a = 0; a < dim; a++)
      for (let c = 0; c < dim; c++) {
        const x = power[a * dim + c];
        if (x !== 0) for (let b = 0; b < dim; b++) next[a * dim + b] += x * power[c * dim + b];
      }
    power = scaled(next);
  }
  let best = 0;
  for (let a = 1; a < dim; a++) if (power[a * dim + a] > power[best * dim + best]) best = a;
  const row = power.slice(best * dim, (best + 1) * dim),
    length = Math.hypot(...row);
  return length === 0 ? row : row.map((x) => x / length);
}
/** Divides by the trace, so that powers neither vanish nor overflow. */
function scaled(m: Float64Array): Float64Array {
  const dim = Math.sqrt(m.length);
  let trace = 0;
  for (let a = 0; a < dim; a++) trace += m[a * dim + a];
  return trace === 0 ? m : m.map((x) => x / trace);
}

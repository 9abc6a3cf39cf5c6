import { KvError, readTensorFile, sidecar, tensorFile } from '@kv/core';
import { range, rotateVectors } from '@kv/core/shared';
import type { Signal } from '@kv/core';

/** Statistics of one layer's queries before rotation, over calibration texts. */
export interface QueryStatistics {
  readonly queryHeads: number;
  readonly headDim: number;
  /** E[q], `[H, d]`. */
  readonly mean: Float32Array;
  /** Covariance, divided by N - 1, `[H, d, d]`. */
  readonly covariance: Float32Array;
}
/**
 * Queries of one layer as attention reads them, `[H, m, d]`, with the angles of their rotation, cos and sin
 * `[m, half]`.
 */
export interface TurnedQueries {
  readonly q: Float32Array;
  readonly cos: Float32Array;
  readonly sin: Float32Array;
  readonly half: number;
}

/** Name of the file next to the model. */
export const QUERY_STATISTICS_FILE = 'query-statistics.safetensors';

/**
 * Returns the statistics of all layers as a safetensors file with kvpress' tensors: `query_mean` `[L, H, d]` and
 * `query_cov` `[L, H, d, d]`.
 */
export function queryStatisticsFile(
  rows: readonly QueryStatistics[],
  metadata: Readonly<Record<string, string>> = {},
): Uint8Array {
  const { queryHeads: H, headDim: d } = rows[0],
    put = (shape: readonly number[], of: (row: QueryStatistics) => Float32Array) => {
      const data = new Float32Array(rows.length * of(rows[0]).length);
      rows.forEach((row, l) => data.set(of(row), l * of(row).length));
      return { shape: [rows.length, ...shape], data };
    };
  return tensorFile({
    metadata,
    tensors: { query_mean: put([H, d], (row) => row.mean), query_cov: put([H, d, d], (row) => row.covariance) },
  });
}

/**
 * Reads a file that `queryStatisticsFile` or kvpress' `ExpectedAttentionStats.save_pretrained` writes.
 *
 * @throws KvError for any other bytes.
 */
export function readQueryStatistics(file: Uint8Array): readonly QueryStatistics[] {
  const { query_mean: mean, query_cov: covariance } = readTensorFile(QUERY_STATISTICS_FILE, file, [
      'query_mean',
      'query_cov',
    ]).tensors,
    [L = 0, H = 0, d = 0, ...more] = mean.shape;
  if (more.length > 0 || L * H * d === 0 || covariance.shape.join() !== [L, H, d, d].join())
    throw new KvError(
      QUERY_STATISTICS_FILE,
      `expected means [layers, heads, channels] and covariances [layers, heads, channels, channels], got [${mean.shape.join(', ')}] and [${covariance.shape.join(', ')}]`,
    );
  return Array.from({ length: L }, (_, l) => ({
    queryHeads: H,
    headDim: d,
    mean: mean.data.subarray(l * H * d, (l + 1) * H * d),
    covariance: covariance.data.subarray(l * H * d * d, (l + 1) * H * d * d),
  }));
}

/**
 * Signal: mean and covariance of a layer's queries before rotation, from `query-statistics.safetensors` next to the
 * model.
 *
 * @throws KvError where the file is missing or belongs to another model.
 */
export const queryStatistics: Signal<'queryStatistics', QueryStatistics> = sidecar({
  as: 'queryStatistics',
  piece: 'expectedAttentionStats',
  file: QUERY_STATISTICS_FILE,
  of: 'statistics',
  make: 'node tools/calibrate.mjs MODEL',
  read: readQueryStatistics,
});

/**
 * Returns an accumulator of one layer's queries, turned back by their own angles, without the first `sinks` of the
 * text; it gives their mean and covariance.
 */
export function queryMoments(
  heads: number,
  dim: number,
  sinks = 4,
): { add(queries: TurnedQueries): void; take(): QueryStatistics } {
  const sums = new Float64Array(heads * dim),
    squares = new Float64Array(heads * dim * dim);
  let seen = 0,
    count = 0;
  return {
    add({ q, cos, sin, half }) {
      const m = q.length / (heads * dim),
        data = new Float32Array(q.length),
        places = { data: range(0, m), shape: [1, m] };
      rotateVectors(
        {
          x: { data: q, shape: [heads, m, dim] },
          cos: { data: cos, shape: [1, m, half] },
          sin: { data: sin, shape: [1, m, half] },
          index: places,
        },
        true,
        data,
      );
      const first = Math.max(0, Math.min(m, sinks - seen));
      for (let h = 0; h < heads; h++)
        for (let t = first; t < m; t++) {
          const at = (h * m + t) * dim,
            to = h * dim;
          for (let a = 0; a < dim; a++) {
            const x = data[at + a];
            sums[to + a] += x;
            for (let b = 0; b <= a; b++) squares[(to + a) * dim + b] += x * data[at + b];
          }
        }
      seen += m;
      count += m - first;
    },
    take: () => {
      const mean = sums.map((x) => x / Math.max(1, count)),
        covariance = new Float32Array(squares.length);
      for (let h = 0; h < heads; h++)
        for (let a = 0; a < dim; a++)
          for (let b = 0; b <= a; b++) {
            const c =
              (squares[(h * dim + a) * dim + b] - count * mean[h * dim + a] * mean[h * dim + b]) /
              Math.max(1, count - 1);
            covariance[(h * dim + a) * dim + b] = covariance[(h * dim + b) * dim + a] = c;
          }
      return { queryHeads: heads, headDim: dim, mean: Float32Array.from(mean), covariance };
    },
  };
}

import { sumOf } from '@kv/core/shared';

/** The first layer's attention by token and by pair of tokens, by position, evicted ones included. */
export interface CoAttention {
  /** Attention that each token receives from its own chunk, summed over the three heads with the most, `[N]`. */
  readonly saliency: Float32Array;
  /** Directed edges, ascending in `from`; a pair may occur in both directions. */
  readonly from: Uint32Array;
  readonly to: Uint32Array;
  readonly weight: Float32Array;
}

export const CHUNK = 1024,
  WITHIN: EdgeLimit = { most: 8, above: 0.3 },
  ACROSS: EdgeLimit = { most: 4, above: 0.02 };
const HEADS = 3;

export interface EdgeLimit {
  readonly most: number;
  readonly above: number;
}
export interface Best {
  readonly to: number[];
  readonly weight: number[];
}
/** Keeps the `most` heaviest, the first of equals. */
export function offer({ to, weight }: Best, j: number, w: number, { most, above }: EdgeLimit): void {
  if (!(w > above) || (weight.length === most && !(w > weight[most - 1]))) return;
  let at = weight.length;
  while (at > 0 && w > weight[at - 1]) at--;
  weight.splice(at, 0, w);
  to.splice(at, 0, j);
  if (weight.length > most) {
    weight.pop();
    to.pop();
  }
}

/** Returns the attention received, summed over the heads with the most. Sorts its argument. */
export const attendedMost = (received: number[]): number => sumOf(received.sort((a, b) => b - a).slice(0, HEADS));

/** Returns the edges of every token as arrays. */
export function flat(best: readonly Best[], saliency: readonly number[]): CoAttention {
  return {
    saliency: Float32Array.from(saliency),
    from: Uint32Array.from(best.flatMap(({ to }, i) => new Array<number>(to.length).fill(i))),
    to: Uint32Array.from(best.flatMap(({ to }) => to)),
    weight: Float32Array.from(best.flatMap(({ weight }) => weight)),
  };
}

/** Rows and columns of cosines summed together: their sums stay in registers. */
const TILE = 4;

/**
 * Visits the cosines above WITHIN's threshold between a chunk's mean rows (row i has i + 1 weights): each pair in both
 * directions, and for each i with j ascending. Every sum runs over c in order; half of them are computed once for both.
 */
function alike(rows: readonly Float32Array[], visit: (i: number, j: number, cosine: number) => void): void {
  const n = rows.length,
    padded = Math.ceil(n / TILE) * TILE,
    unit = new Float64Array(padded * padded), // 0 after each row's end
    sums = new Float64Array(TILE * TILE);
  rows.forEach((row, i) => {
    const size = Math.sqrt(row.reduce((s, x) => s + x * x, 0)) + 1e-8;
    for (let c = 0; c <= i; c++) unit[i * padded + c] = Math.fround(row[c] / size);
  });
  for (let i = 0; i < n; i += TILE)
    for (let j = 0; j <= i; j += TILE) {
      tile(unit, padded, i * padded, j * padded, j + TILE, sums);
      for (let a = 0; a < TILE; a++)
        for (let b = 0; b < TILE; b++) {
          const cosine = sums[a * TILE + b];
          if (!(cosine > WITHIN.above) || i + a === j + b) continue;
          visit(i + a, j + b, cosine);
          if (i !== j) visit(j + b, i + a, cosine);
        }
    }
}

/** Writes inner products of four rows with four, over their first `length` numbers. */
function tile(x: Float64Array, stride: number, a: number, b: number, length: number, sums: Float64Array): void {
  for (let r = 0; r < TILE; r += 2) {
    let [s, t, u, v, S, T, U, V] = [0, 0, 0, 0, 0, 0, 0, 0];
    const at = a + r * stride;
    for (let c = 0; c < length; c++) {
      const w = x[at + c],
        W = x[at + stride + c],
        p = x[b + c],
        q = x[b + stride + c],
        y = x[b + 2 * stride + c],
        z = x[b + 3 * stride + c];
      s += w * p;
      t += w * q;
      u += w * y;
      v += w * z;
      S += W * p;
      T += W * q;
      U += W * y;
      V += W * z;
    }
    sums.set([s, t, u, v, S, T, U, V], r * TILE);
  }
}

/** Division of the queries: chunks of the prompt, then generated tokens. */
export interface QueryChunk {
  /** @defaultValue 1024 */
  readonly chunk?: number;
  /** Tokens of the prompt. @defaultValue all */
  readonly prompt?: number;
}
export interface Collector {
  /** Adds the rows `[H, query + 1]` of a query; queries come in order. */
  add(query: number, rows: Float32Array): void;
  /** Returns the edges and saliency so far; more queries may be added. */
  take(): CoAttention;
}

/**
 * Returns a collector that turns the attention rows of queries, in order, into edges and saliency. Generated tokens
 * have edges to all tokens that they attend to, and no cosines.
 */
export function collector({ chunk = CHUNK, prompt = Infinity }: QueryChunk = {}): Collector {
  const best: Best[] = [],
    saliency: number[] = [];
  let start = 0,
    count = 0,
    own: Float32Array[] = [],
    columns: Float64Array[] = [];

  const attended = (i: number): number => attendedMost(columns.map((column) => column[i]));
  function close(): void {
    if (own.length > 0) alike(own, (i, j, cosine) => offer(best[start + i], start + j, cosine, WITHIN));
    for (let i = 0; i < count; i++) saliency[start + i] = attended(i);
    [start, count, own, columns] = [start + count, 0, [], []];
  }

  return {
    add(query, rows) {
      if (count === chunk || query === prompt) close();
      const width = query + 1,
        heads = rows.length / width,
        across: Best = { to: [], weight: [] },
        generated = query >= prompt;
      if (columns.length === 0) columns = Array.from({ length: heads }, () => new Float64Array(chunk));
      const mean = new Float32Array(width);
      for (let h = 0; h < heads; h++)
        for (let i = 0; i < width; i++) {
          const weight = rows[h * width + i];
          mean[i] += weight / heads;
          if (i >= start) columns[h][i - start] += weight;
        }
      for (let i = 0; i < (generated ? query : start); i++) offer(across, i, mean[i], ACROSS);
      best.push({ to: [], weight: [] });
      // an edge runs from the earlier token to the query that reads it
      across.to.forEach((i, k) => {
        best[i].to.push(query);
        best[i].weight.push(across.weight[k]);
      });
      if (!generated) own.push(mean.slice(start));
      count++;
    },
    take() {
      if (own.length > 0) close();
      return flat(
        best,
        best.map((_, i) => (i < start ? saliency[i] : attended(i - start))),
      );
    },
  };
}

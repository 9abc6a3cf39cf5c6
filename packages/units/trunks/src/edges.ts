/** What the first layer's attention says about tokens and pairs of tokens, by position, evicted ones included. */
export interface CoAttention {
  /** Attention that each token receives from its own chunk, summed over the three heads that give most, `[N]`. */
  readonly saliency: Float32Array;
  /** Directed edges, ascending in `from`; a pair may stand in both directions. */
  readonly from: Uint32Array;
  readonly to: Uint32Array;
  readonly weight: Float32Array;
}

export const CHUNK = 1024,
  WITHIN: Strongest = { most: 8, above: 0.3 },
  ACROSS: Strongest = { most: 4, above: 0.02 };
const HEADS = 3;

export interface Strongest {
  readonly most: number;
  readonly above: number;
}
export interface Best {
  readonly to: number[];
  readonly weight: number[];
}
/** Keeps the `most` heaviest, the first of equals. */
export function offer({ to, weight }: Best, j: number, w: number, { most, above }: Strongest): void {
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

/** Attention received, summed over the heads that give most; sorts them. */
export const attendedMost = (received: number[]): number =>
  received
    .sort((a, b) => b - a)
    .slice(0, HEADS)
    .reduce((a, b) => a + b, 0);

/** Edges of every token as lists. */
export function flat(best: readonly Best[], saliency: readonly number[]): CoAttention {
  return {
    saliency: Float32Array.from(saliency),
    from: Uint32Array.from(best.flatMap(({ to }, i) => new Array<number>(to.length).fill(i))),
    to: Uint32Array.from(best.flatMap(({ to }) => to)),
    weight: Float32Array.from(best.flatMap(({ weight }) => weight)),
  };
}

/** Where queries stand: chunks of the prompt, then what was generated. */
export interface Stretch {
  /** @defaultValue 1024 */
  readonly chunk?: number;
  /** Tokens of the prompt. @defaultValue all */
  readonly prompt?: number;
}
export interface Collector {
  /** Queries in order, rows `[H, query + 1]`. */
  add(query: number, rows: Float32Array): void;
  /** What there is so far; more may be added. */
  take(): CoAttention;
}

/**
 * Takes the attention rows of queries in order and leaves edges and saliency. Generated tokens have edges to all tokens
 * that they read, and no cosines.
 */
export function collector({ chunk = CHUNK, prompt = Infinity }: Stretch = {}): Collector {
  const best: Best[] = [],
    saliency: number[] = [];
  let start = 0,
    count = 0,
    own: Float32Array[] = [],
    columns: Float64Array[] = [];

  const attended = (i: number): number => attendedMost(columns.map((column) => column[i]));
  function close(): void {
    const unit = own.map((row) => {
      const size = Math.sqrt(row.reduce((s, x) => s + x * x, 0)) + 1e-8;
      return row.map((x) => x / size);
    });
    for (let i = 0; i < unit.length; i++)
      for (let j = 0; j < unit.length; j++) {
        if (i === j) continue;
        const [a, b] = [unit[i], unit[j]];
        let cosine = 0;
        for (let c = 0; c <= Math.min(i, j); c++) cosine += a[c] * b[c];
        offer(best[start + i], start + j, cosine, WITHIN);
      }
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

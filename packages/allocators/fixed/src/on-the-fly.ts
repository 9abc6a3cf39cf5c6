import { sumOf } from '@kv/core/shared';

/** Mean queries `[H, d]` and keys `[G, d]` of a layer before rotation, and the angles of positions 0 to n - 1. */
export interface MeanVectors {
  readonly queries: Float32Array;
  readonly keys: Float32Array;
  readonly headDim: number;
  /** `[n, half]` each, of the pairs (i, i + half). */
  readonly cos: Float32Array;
  readonly sin: Float32Array;
  readonly half: number;
}

/**
 * Returns how much of the whole context each KV head of a layer needs, 0 to 1: the mean query attends to the mean key
 * at every position, and the score is the mean of the weights' running sums, over the head group. A head that attends
 * to the newest positions only scores near 0.
 *
 * @remarks kvpress' on_the_fly_scoring of DuoAttentionPress, there over 50 chapters and n = 500.
 */
export function headScores({ queries, keys, headDim: d, cos, sin, half }: MeanVectors): readonly number[] {
  const [H, G, n] = [queries.length / d, keys.length / d, cos.length / half];
  const turned = (x: Float32Array, head: number, position: number): Float64Array => {
    const out = Float64Array.from(x.subarray(head * d, (head + 1) * d));
    for (let i = 0; i < half; i++) {
      const [c, s] = [cos[position * half + i], sin[position * half + i]];
      const [a, b] = [out[i], out[i + half]];
      [out[i], out[i + half]] = [a * c - b * s, b * c + a * s];
    }
    return out;
  };
  const scores = new Array<number>(G).fill(0);
  for (let h = 0; h < H; h++) {
    const g = Math.floor((h * G) / H),
      query = turned(queries, h, n - 1);
    const logits = Array.from(
      { length: n },
      (_, p) => turned(keys, g, p).reduce((sum, x, i) => sum + x * query[i], 0) / Math.sqrt(d),
    );
    const most = Math.max(...logits),
      weights = logits.map((x) => Math.exp(x - most)),
      all = sumOf(weights);
    // position p counts in the running sums of p and of all later positions
    scores[g] += weights.reduce((sum, w, p) => sum + (w / all) * (n - p), 0) / n / (H / G);
  }
  return scores;
}

/** Returns scores `[layer][KV head]` as the file that `duoAttention` reads. */
export const headScoresFile = (scores: readonly (readonly number[])[]): Uint8Array =>
  new TextEncoder().encode(scores.map((row) => `${row.join('\t')}\n`).join(''));

/** Vectors of one head. */
export type Vectors = readonly (readonly number[])[];

/** Turns the pairs (c, c + half) of a vector by `by` times each frequency. */
const turned = (x: readonly number[], frequencies: readonly number[], by: number): number[] => {
  const out = [...x];
  frequencies.forEach((f, c) => {
    const [a, b] = [x[c], x[c + frequencies.length]];
    out[c] = a * Math.cos(by * f) - b * Math.sin(by * f);
    out[c + frequencies.length] = a * Math.sin(by * f) + b * Math.cos(by * f);
  });
  return out;
};

/**
 * Attention rows of the last queries of a text of n tokens, `[query][slot]`, after the window moved on by its own length.
 * Each query sees the slots that it saw where it stood.
 */
export const futureRows = (
  queries: Vectors,
  keys: Vectors,
  positions: readonly number[],
  n: number,
  frequencies: readonly number[],
): number[][] =>
  queries.map((q, i) => {
    const w = queries.length,
      moved = turned(q, frequencies, w),
      seen = positions.map((p) => p <= n - w + i),
      e = keys.map((k, j) =>
        seen[j] ? Math.exp(k.reduce((sum, x, c) => sum + x * moved[c], 0) / Math.sqrt(q.length)) : 0,
      ),
      sum = e.reduce((a, b) => a + b, 0);
    return sum === 0 ? e.map(() => 1 / e.length) : e.map((x) => x / sum);
  });

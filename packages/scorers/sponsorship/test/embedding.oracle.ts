/**
 * Ends of all runs of tokens whose embeddings, laid end to end, have at least that cosine to a concept's, in float64;
 * no neighbour after them does.
 */
export function anchorsOracle(
  table: readonly (readonly number[])[],
  ids: readonly number[],
  concepts: readonly (readonly number[])[],
  above: number,
): number[] {
  const close = ids.map((_, i) =>
    concepts.some((word) => {
      if (word.length === 0 || i + 1 < word.length) return false;
      const a = ids.slice(i + 1 - word.length, i + 1).flatMap((id) => table[id]),
        b = word.flatMap((id) => table[id]);
      const size = Math.hypot(...a) * Math.hypot(...b);
      return (size === 0 ? 0 : a.reduce((s, x, c) => s + x * b[c], 0) / size) >= above;
    }),
  );
  return close.flatMap((is, i) => (is && close[i + 1] !== true ? [i] : []));
}

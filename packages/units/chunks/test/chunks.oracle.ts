import ndarray from 'ndarray';
import ops from 'ndarray-ops';

/**
 * Score of every chunk: over KV heads the sum of the mean score of the head's slots in it; scores and positions by
 * head, over its slots. Empty chunks of a head add 0.
 */
export function chunksOracle(
  scores: readonly (readonly number[])[],
  positions: readonly (readonly number[])[],
  size: number,
  length: number,
): number[] {
  return Array.from({ length: Math.ceil(length / size) }, (_, u) =>
    scores.reduce((total, row, g) => {
      const own = row.filter((_, i) => positions[g][i] >= u * size && positions[g][i] < (u + 1) * size);
      return total + (own.length === 0 ? 0 : ops.sum(ndarray(Float64Array.from(own), [own.length])) / own.length);
    }, 0),
  );
}

/**
 * Slots that the entropy-gated greedy pass keeps of one row of summed scores, ascending; undefined where a chunk's
 * entropy lies within rounding of the median without being it.
 */
export function entropyGateOracle(
  scores: readonly number[],
  size: number,
  low: number,
  budget: number,
): number[] | undefined {
  const byScore = (a: number, b: number): number => scores[b] - scores[a] || a - b;
  const chunks = Array.from({ length: Math.ceil(scores.length / size) }, (_, u) => {
    const slots = scores.flatMap((_score, i) => (Math.floor(i / size) === u ? [i] : [])),
      own = ndarray(
        Float64Array.from(slots, (i) => scores[i]),
        [slots.length],
      ),
      mean = ops.sum(own) / slots.length;
    ops.subseq(own, Math.min(0, ops.inf(own)));
    ops.divseq(own, ops.sum(own) + 1e-8);
    const entropy =
      slots.length === 1
        ? 0
        : -Array.from(own.data).reduce((sum, p) => sum + p * Math.log(p + 1e-8), 0) / Math.log(slots.length);
    return { u, slots: slots.sort(byScore), mean, entropy: Math.max(0, Math.min(1, entropy)) };
  });
  const median = (of: readonly number[]): number => [...of].sort((a, b) => a - b)[(of.length - 1) >> 1];
  const mean = median(chunks.map((c) => c.mean)),
    entropy = median(chunks.map((c) => c.entropy));
  if (chunks.filter((c) => Math.abs(c.entropy - entropy) < 1e-5).length > 1) return undefined;
  const kept: number[] = [];
  for (const chunk of chunks.sort((a, b) => b.mean - a.mean || a.u - b.u))
    kept.push(
      ...chunk.slots.slice(
        0,
        Math.min(budget - kept.length, chunk.mean >= mean && chunk.entropy < entropy ? low : size),
      ),
    );
  const rest = scores.flatMap((_, i) => (kept.includes(i) ? [] : [i])).sort(byScore);
  return [...kept, ...rest.slice(0, budget - kept.length)].sort((a, b) => a - b);
}

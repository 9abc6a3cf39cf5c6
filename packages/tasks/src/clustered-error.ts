/**
 * Returns the standard error of the mean of all members: sqrt(Σ over clusters of (Σ (x − mean))² · C / (C − 1)) / n; 0
 * for one cluster.
 *
 * @remarks Miller, arXiv:2411.00640, appendix A, with the factor of C clusters that inspect_ai adds.
 * @throws RangeError without any member
 */
export function clusteredError(clusters: readonly (readonly number[])[]): number {
  const all = clusters.flat(),
    count = clusters.length;
  if (all.length === 0) throw new RangeError('clusteredError: expected at least one member, got none');
  if (count === 1) return 0;
  const mean = all.reduce((a, b) => a + b, 0) / all.length,
    squares = clusters.map((cluster) => cluster.reduce((sum, x) => sum + x - mean, 0) ** 2);
  return Math.sqrt((squares.reduce((a, b) => a + b, 0) * count) / (count - 1)) / all.length;
}

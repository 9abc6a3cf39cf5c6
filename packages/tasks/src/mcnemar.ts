/**
 * Returns the p-value of the exact two-sided McNemar test: of `b + c` pairs that disagree, `b` one way and `c` the
 * other, each way is equally likely under the null; 2·P(X <= min(b, c)), at most 1.
 * @throws RangeError for anything but whole numbers of at least 0
 */
export function mcnemar(b: number, c: number): number {
  if (![b, c].every((count) => Number.isInteger(count) && count >= 0))
    throw new RangeError(`mcnemar: expected whole numbers of at least 0, got ${b} and ${c}`);
  const n = b + c,
    least = Math.min(b, c);
  // Computed in logarithms: summing terms from the middle outwards would overflow for large n.
  let term = -n * Math.LN2,
    sum = Math.exp(term);
  for (let k = 1; k <= least; k++) sum += Math.exp((term += Math.log((n - k + 1) / k)));
  return Math.min(1, 2 * sum);
}

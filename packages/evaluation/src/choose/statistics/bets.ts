/** Number of bets that share the stake. */
const BETS = 20;

/**
 * Returns what a stake of 1 has become by betting that the mean of values in [0, 1] is above `mean`: the average over
 * D = 20 constant bets of the products of 1 + d / (D + 1) * (x - mean) / mean, d = 1 to D. It falls as `mean` rises.
 *
 * If the expectation of every value, given those before, is at most `mean`, the stake ever reaches 1 / a with
 * probability at most a, whenever one looks and whatever decides that one goes on (Ville's inequality).
 *
 * @param times how often each value came; default 1
 * @remarks The diversified Kelly bets of Waudby-Smith & Ramdas, Estimating means of bounded random variables by
 * betting, JRSS B 86 (2024), arXiv:2010.09686, section 4 and appendix B.
 */
export function stake(values: readonly number[], mean: number, times = 1): number {
  if (mean <= 0) return values.some((x) => x > 0) ? Infinity : 1;
  let all = 0;
  for (let d = 1; d <= BETS; d++) {
    const bet = d / (BETS + 1) / mean;
    let one = 1;
    for (const x of values) one *= 1 + bet * (x - mean);
    all += one ** times;
  }
  return all / BETS;
}

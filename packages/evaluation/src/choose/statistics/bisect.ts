/**
 * Runs a ladder of budgets on one prompt without running every rung, as if a larger budget never lost more: both ends,
 * then the middle of every gap whose ends differ in loss. A gap whose ends agree takes the result of its upper end.
 *
 * @param rungs number of rungs, ascending budgets; at least 1
 * @returns the result of each rung
 */
export async function bisect<T>(
  rungs: number,
  run: (rung: number) => Promise<T>,
  lossOf: (result: T) => number,
): Promise<readonly T[]> {
  const results: T[] = [],
    fill = async (low: number, high: number): Promise<void> => {
      if (high - low < 2) return;
      if (lossOf(results[low]) === lossOf(results[high])) {
        results.fill(results[high], low + 1, high);
        return;
      }
      const middle = (low + high) >> 1;
      results[middle] = await run(middle);
      await fill(low, middle);
      await fill(middle, high);
    };
  results.length = rungs;
  results[rungs - 1] = await run(rungs - 1);
  if (rungs > 1) results[0] = await run(0);
  await fill(0, rungs - 1);
  return results;
}

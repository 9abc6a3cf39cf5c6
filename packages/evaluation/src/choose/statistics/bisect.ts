/**
 * Runs ladders of budgets on one prompt without running every rung, as if a larger budget never lost more: both ends,
 * then the middle of every gap whose ends differ in loss. A gap whose ends agree takes the result of its upper end. All
 * ladders advance together, so that what they ask for can be run together.
 *
 * @param ladders number of rungs of each, ascending budgets; at least 1
 * @param run takes what is asked for next, a rung of a ladder each, and returns their results
 * @returns the result of each rung, of each ladder
 */
export async function bisect<T>(
  ladders: readonly number[],
  run: (asked: readonly (readonly [ladder: number, rung: number])[]) => Promise<readonly T[]>,
  lossOf: (result: T) => number,
): Promise<readonly (readonly T[])[]> {
  const searches = ladders.map((rungs) => search(rungs, lossOf)),
    found: (readonly T[])[] = [];
  let steps = searches.map((one, ladder) => ({ ladder, step: one.next() }));
  for (;;) {
    const asked: (readonly [number, number])[] = [];
    for (const { ladder, step } of steps)
      if (step.done) found[ladder] = step.value;
      else asked.push([ladder, step.value]);
    if (asked.length === 0) return found;
    const results = await run(asked);
    steps = asked.map(([ladder], i) => ({ ladder, step: searches[ladder].next(results[i]) }));
  }
}

/** Searches one ladder: yields the rung that it asks for next, and takes its result. */
function* search<T>(rungs: number, lossOf: (result: T) => number): Generator<number, readonly T[], T> {
  const results: T[] = [];
  results.length = rungs;
  results[rungs - 1] = yield rungs - 1;
  if (rungs > 1) results[0] = yield 0;
  const gaps = [[0, rungs - 1]];
  for (let gap = gaps.pop(); gap; gap = gaps.pop()) {
    const [low, high] = gap;
    if (high - low < 2) continue;
    if (lossOf(results[low]) === lossOf(results[high])) {
      results.fill(results[high], low + 1, high);
      continue;
    }
    const middle = (low + high) >> 1;
    results[middle] = yield middle;
    gaps.push([middle, high], [low, middle]);
  }
  return results;
}

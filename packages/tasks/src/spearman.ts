/** Returns ranks from 0; ties share their mean. */
function ranks(values: ArrayLike<number>): Float64Array {
  if (Array.from(values).some(Number.isNaN)) throw new RangeError('spearman: expected numbers, got NaN');
  const order = Array.from(values, (_, i) => i).sort((i, j) => values[i] - values[j]),
    out = new Float64Array(values.length);
  for (let from = 0, to = 0; from < order.length; from = to) {
    while (to < order.length && values[order[to]] === values[order[from]]) to++;
    for (let i = from; i < to; i++) out[order[i]] = (from + to - 1) / 2;
  }
  return out;
}

/**
 * Returns Spearman's rank correlation, i.e. Pearson's of the ranks; 0 if one side does not vary.
 * @throws RangeError for NaN, or sides of different lengths
 */
export function spearman(x: ArrayLike<number>, y: ArrayLike<number>): number {
  if (x.length !== y.length)
    throw new RangeError(`spearman: expected as many numbers on both sides, got ${x.length} and ${y.length}`);
  const a = ranks(x),
    b = ranks(y),
    middle = (a.length - 1) / 2;
  let ab = 0,
    aa = 0,
    bb = 0;
  for (let i = 0; i < a.length; i++) {
    const u = a[i] - middle,
      v = b[i] - middle;
    ab += u * v;
    aa += u * u;
    bb += v * v;
  }
  return aa === 0 || bb === 0 ? 0 : ab / Math.sqrt(aa * bb);
}

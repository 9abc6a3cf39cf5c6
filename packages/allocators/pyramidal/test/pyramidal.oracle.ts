import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

/** `count` numbers from `first` down to `last`. */
function descending(first: number, last: number, count: number): NdArray<Float64Array> {
  const line = ndarray(
    Float64Array.from({ length: count }, (_, l) => l),
    [count],
  );
  ops.mulseq(line, (last - first) / (count - 1));
  ops.addseq(line, first);
  return line;
}

/**
 * The authors' budgets before rounding: M slots a layer on average, W of them the window, or undefined where theirs are
 * uniform.
 */
export function authors(
  mean: number,
  window: number,
  slots: number,
  layers: number,
  beta: number,
): NdArray<Float64Array> | undefined {
  const free = mean - window;
  if (layers < 2 || free <= 0 || slots < 2 * free) return undefined;
  let least = free / beta,
    most = 2 * free - least;
  if (most >= slots - window) {
    most = slots - window;
    least = 2 * free - most;
  }
  const line = descending(most, least, layers);
  ops.addseq(line, window);
  return line;
}

/**
 * Budgets near `targets`, none above its cap, that add up to `total` where the caps allow it: all are raised by the same
 * amount, searched for by halves.
 */
export function filled(targets: readonly number[], caps: readonly number[], total: number): number[] {
  const raised = (by: number): number[] => targets.map((target, i) => Math.min(target + by, caps[i]));
  let low = 0,
    high = total + Math.max(...caps);
  for (let i = 0; i < 100; i++) {
    const middle = (low + high) / 2;
    if (raised(middle).reduce((a, b) => a + b, 0) < total) low = middle;
    else high = middle;
  }
  return raised(low);
}

/** kvpress' budgets of each layer: `mean` is n (1 - ratio) as it is, and Python rounds half to even. */
export function kvpress(mean: number, window: number, slots: number, layers: number, beta: number): number[] {
  let least = mean / beta,
    most = mean * 2 - least;
  if (most >= slots - window) {
    most = slots - window;
    least = mean * 2 - most;
  }
  const round = (x: number): number => (Math.abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x));
  if (layers < 2 || !(slots >= most && most >= least && least >= window))
    return new Array<number>(layers).fill(round(mean));
  return Array.from(descending(most, least, layers).data, round);
}

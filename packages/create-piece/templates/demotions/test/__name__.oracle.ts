import ndarray from 'ndarray';
import ops from 'ndarray-ops';

/** Levels of kept slots, best first: the first largest score is taken and struck out, half of them as `q8`. */
export function oracle(scores: readonly number[], kept: readonly number[]): string[] {
  const left = ndarray(
      Float64Array.from(kept, (slot) => scores[slot] ?? 0),
      [kept.length],
    ),
    levels = kept.map(() => 'q4');
  for (let taken = 0; taken < Math.floor(kept.length / 2); taken++) {
    const best = left.data.indexOf(ops.sup(left));
    levels[best] = 'q8';
    left.set(best, -Infinity);
  }
  return levels;
}

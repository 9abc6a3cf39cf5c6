import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

/** How often the id at each position occurs in the whole list, by comparing every pair: `[N]`. */
export function occurrences(ids: readonly number[]): NdArray<Float64Array> {
  const list = ndarray(Float64Array.from(ids), [ids.length]),
    same = ndarray(new Float64Array(ids.length), [ids.length]),
    c = ndarray(new Float64Array(ids.length), [ids.length]);
  for (let i = 0; i < ids.length; i++) {
    ops.eqs(same, list, ids[i]);
    c.set(i, ops.sum(same));
  }
  return c;
}

/** U = 1 / (1 + ln(1 + c)) by position, `[N]`. */
export function rarityOracle(ids: readonly number[]): NdArray<Float64Array> {
  const u = occurrences(ids);
  ops.addseq(u, 1);
  ops.logeq(u);
  ops.addseq(u, 1);
  ops.recipeq(u);
  return u;
}

import { expect } from 'vitest';
import { readCpu } from '@kv/cpu';
import type { Tensor } from '@kv/core';
import type { NdArray } from 'ndarray';

/**
 * Asserts that valid entries of a tensor equal the oracle's, to f32 rounding of an exact result (1 ulp, relative), or
 * to `tolerance`.
 */
export function agree(
  got: Tensor,
  want: NdArray,
  { lengths, tolerance = 2 ** -22 }: { lengths?: ((row: number) => number) | undefined; tolerance?: number } = {},
): void {
  const { data, shape } = readCpu(got);
  expect(shape).toEqual([...want.shape]);
  const [rows, slots = 1, channels = 1] = shape;
  for (let r = 0; r < rows; r++)
    for (let i = 0; i < Math.min(slots, lengths?.(r) ?? slots); i++)
      for (let c = 0; c < channels; c++) {
        const x = data[(r * slots + i) * channels + c],
          y = Math.fround(want.get(...([r, i, c].slice(0, want.shape.length) as [number])));
        if (!(Object.is(x, y) || x === y || Math.abs(x - y) <= tolerance * Math.max(1, Math.abs(y))))
          expect.fail(`row ${r}, slot ${i}, channel ${c}: ${x}, expected ${y}`);
      }
}
/** Lengths of a result: the valid slots of each of its rows. */
export const lengthsOf = (t: Tensor): number[] | undefined => {
  const { lengths } = readCpu(t);
  return lengths && [...lengths];
};

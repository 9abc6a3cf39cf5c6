import { checkNumber, isPositiveInteger } from '@kv/core';
import { unit } from '@kv/core/old';
import type { Unit } from '@kv/core';

/**
 * Blocks of `size` slots, each scored by the mean of its slots.
 *
 * @remarks Source: authors, year, identifier, equation. Scores `[rows, n]` to unit scores `[rows, ceil(n / size)]`.
 * O(rows n).
 * @throws KvError if `size` is not a positive whole number.
 */
export function __camel__({ size = 16 }: { /** @defaultValue 16 */ readonly size?: number } = {}): Unit<'__camel__'> {
  checkNumber('__camel__', 'size', size, 'a positive whole number of slots', isPositiveInteger);
  return unit({ name: '__camel__', options: { size } }, [], ({ ops, at, scores }) => {
    const count = Math.ceil(at.slots / size);
    const of = ops.from(
      { data: Uint32Array.from({ length: at.slots }, (_, slot) => Math.floor(slot / size)), shape: [1, at.slots] },
      'u32',
    );
    return { units: { of, count }, scores: ops.groupSlots('mean', scores, of, count) };
  });
}

import { checkNumber, positions, uniformHash } from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Weigher } from '@kv/core';

const isU32 = (x: number): boolean => Number.isInteger(x) && x >= 0 && x < 2 ** 32;

/**
 * Random eviction: a hash of (seed, layer, KV head, position) in [0, 1), the floor that every method must beat.
 *
 * @remarks Weights on KV rows `[G, n]`. Not a generator: a slot keeps its number over events, block sizes and backends.
 * @throws KvError if `seed` is not a whole number below 2^32.
 */
export function random({ seed = 0 }: { /** @defaultValue 0 */ readonly seed?: number } = {}): Weigher<'random'> {
  checkNumber('random', 'seed', seed, 'a whole number below 2^32', isU32);
  return weigher({ name: 'random', options: { seed } }, [positions], ({ ops, at, positions: p }) =>
    ops.kernel(uniformHash, { positions: p }, { seed, layer: at.layer }),
  );
}

import { checkNumber, isCount, positions } from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Weigher } from '@kv/core';

/**
 * StreamingLLM: the first positions (sinks) stay, and of the others the most recent.
 *
 * @remarks Xiao et al. 2023, arXiv:2309.17453, with original positions kept. The score is the position itself, so it
 * reads no
 * attention. Weights on KV rows `[G, n]`.
 * @throws KvError if `sinks` is not a whole number.
 */
export function streaming({
  sinks = 4,
}: {
  /** @defaultValue 4 */ readonly sinks?: number;
} = {}): Weigher<'streaming'> {
  checkNumber('streaming', 'sinks', sinks, 'a whole number of positions', isCount);
  return weigher(
    { name: 'streaming', options: { sinks }, floor: (n) => Math.min(n, sinks) },
    [positions],
    ({ ops, positions: p }) => ({
      scores: ops.add(p, 0),
      forced: ops.less(p, sinks),
    }),
  );
}

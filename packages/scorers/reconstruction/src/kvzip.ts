import { checkNumber, isCount, positions } from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Signal, Weigher } from '@kv/core';

/**
 * The largest weight that each slot receives while the model is made to repeat the context, f32 `[H, n]`: a second pass
 * over it.
 */
export const reconstruction: Signal<'attention'> = {
  id: 'reconstruction',
  as: 'attention',
  cost: 'pass',
  provide: (engine, layer) =>
    engine.observeMax([...engine.encode('\n\nRepeat the previous context exactly.\n'), ...engine.ids], layer),
};

export interface KvzipOptions {
  /** First positions, which score 1. @defaultValue 4 */
  readonly sinks?: number;
}

/**
 * KVzip: the largest attention weight that a slot receives from the query heads of its group while the model repeats
 * the context, so
 * nothing about a later question is needed.
 *
 * @remarks Kim et al. 2025, arXiv:2505.23416. Weights on KV rows `[G, n]`; sinks score 1. Costs a second prefill, and
 * runs once the whole
 * prompt is there. The repetition is one pass over the whole cache, where the authors take chunks of 2,000 tokens.
 * @throws KvError if `sinks` is not a whole number.
 */
export function kvzip({ sinks = 4 }: KvzipOptions = {}): Weigher<'kvzip'> {
  checkNumber('kvzip', 'sinks', sinks, 'a whole number of positions', isCount);
  return weigher(
    { name: 'kvzip', options: { sinks } },
    [reconstruction, positions],
    ({ ops, at, attention, positions: p }) =>
      ops.where(ops.less(p, sinks), 1, ops.groupRows('max', attention, at.kvHeads)),
  );
}

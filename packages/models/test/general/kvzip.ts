import { weigher } from '@kv/core';
import type { Signal, Weigher } from '@kv/core';

/** The largest weight that each slot receives while the model is made to repeat the context: a second pass. */
const reconstruction: Signal<'attention'> = {
  id: 'kvzip.reconstruction', as: 'attention', cost: 'pass',
  provide: (engine, layer) => engine.observeMax([...engine.encode('\n\nRepeat the previous context exactly.\n'), ...engine.ids], layer),
};

/** KVzip (Kim et al. 2025): what reconstructing the context looks at, max over the GQA group. */
export const kvzip = (): Weigher<'kvzip'> => weigher('kvzip', [reconstruction], ({ ops, at, attention }) => ops.groupRows('max', attention, at.kvHeads));

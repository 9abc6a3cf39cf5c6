import { attentionAccumulated, attentionAccumulatedKv, oneOf } from '@kv/core';
import type { StepContext, Signal, Tensor } from '@kv/core';

/** Option: rows over which attention is summed. */
export const rows = oneOf(['query', 'kv'], 'query', 'Sums by query head, or by KV head: H / G times less to remember.');

export const sumsOf = (of: 'query' | 'kv'): Signal<'attention'> =>
  of === 'kv' ? attentionAccumulatedKv : attentionAccumulated;

/** Returns sums on KV rows as means over their group. */
export const groupMean = (
  { ops, at, attention }: StepContext & { readonly attention: Tensor },
  of: 'query' | 'kv',
): Tensor => (of === 'kv' ? ops.mul(attention, at.kvHeads / at.queryHeads) : attention);

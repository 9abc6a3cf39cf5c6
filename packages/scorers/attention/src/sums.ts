import { attentionAccumulated, attentionAccumulatedKv, oneOf } from '@kv/core';
import type { StepContext, Signal, Tensor } from '@kv/core';

/** Whose sums are remembered. */
export const rows = oneOf(['query', 'kv'], 'query', 'Sums by query head, or by KV head: H / G times less to remember.');

export const sumsOf = (of: 'query' | 'kv'): Signal<'attention'> =>
  of === 'kv' ? attentionAccumulatedKv : attentionAccumulated;

/** Sums of KV rows as the mean over their group: what query rows become where KV rows are first needed. */
export const groupMean = (
  { ops, at, attention }: StepContext & { readonly attention: Tensor },
  of: 'query' | 'kv',
): Tensor => (of === 'kv' ? ops.mul(attention, at.kvHeads / at.queryHeads) : attention);

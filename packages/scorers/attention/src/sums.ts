import { attentionAccumulated, attentionAccumulatedKv, checkWord } from '@kv/core';
import type { At, Ops, Signal, Tensor } from '@kv/core';

export interface SumOptions {
  /**
   * Sums by query head, or by KV head: H / G times less to remember, for pieces behind it that take the group's mean.
   * @defaultValue 'query'
   */
  readonly rows?: 'query' | 'kv';
}

/** Running sums in these rows. @throws KvError for another word. */
export function sumsOf(where: string, rows: 'query' | 'kv'): Signal<'attention'> {
  checkWord(where, 'rows', rows, ['query', 'kv']);
  return rows === 'kv' ? attentionAccumulatedKv : attentionAccumulated;
}

/**
 * What was received: of KV rows the mean over the group, which is what query rows become where KV rows are first
 * needed.
 */
export const groupMean = (
  { ops, at, attention }: { readonly ops: Ops; readonly at: At; readonly attention: Tensor },
  rows: 'query' | 'kv',
): Tensor => (rows === 'kv' ? ops.mul(attention, at.kvHeads / at.queryHeads) : attention);

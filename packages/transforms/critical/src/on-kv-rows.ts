import type { Place, Tensor } from '@kv/core';

/** Query rows over each GQA group, other rows as they are. */
export const onKvRows = ({ ops, at }: Place, kind: 'mean' | 'max', x: Tensor): Tensor =>
  x.shape[0] > at.kvHeads ? ops.groupRows(kind, x, at.kvHeads) : x;

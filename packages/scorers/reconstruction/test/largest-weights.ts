import type { AnySignal, Ops } from '@kv/core';
import type { Layer } from '@kv/laws';

/** A random layer's weights as what a second pass saw. */
export const largestWeights =
  (of: AnySignal) =>
  (signal: AnySignal, { at, lengths, attention }: Layer, ops: Ops): unknown =>
    signal.id === of.id
      ? ops.from(
          { data: attention, shape: [at.queryHeads, at.slots] },
          'f32',
          at.aligned
            ? undefined
            : ops.from(
                {
                  data: Uint32Array.from(
                    { length: at.queryHeads },
                    (_, h) => lengths[Math.floor((h * at.kvHeads) / at.queryHeads)],
                  ),
                  shape: [at.queryHeads],
                },
                'u32',
              ),
        )
      : undefined;

import { KvError } from '@kv/core';
import { hostTensor, rowMajorNumbers, sizeOf, withMaths } from '@kv/core/engine';
import type { Ops, Tensor } from '@kv/core';
import type { Commands } from './commands.ts';
import { elementwiseOps } from './ops/elementwise.ts';
import { kernelOp } from './ops/kernel.ts';
import { rankOp } from './ops/rank.ts';
import { reduceOps } from './ops/reduce.ts';
import { slotOps } from './ops/slots.ts';

/** Returns core's operations, recorded: none of them waits for the device or reads from it. */
export function gpuOps(g: Commands): Ops {
  const elementwise = elementwiseOps(g);
  const numeric = (x: Tensor): Tensor => (x.dtype === 'u32' ? elementwise.mul(x, 1) : x);
  const reductions = reduceOps(g);
  return withMaths({
    ...elementwise,
    ...reductions,
    ...slotOps(numeric, g),
    ...rankOp(numeric, g),
    ...kernelOp(numeric, g, reductions),
    from(array, dtype, lengths) {
      const x = hostTensor(array, dtype);
      return g.upload(rowMajorNumbers(x), x.shape, lengths);
    },
    own: (x) => g.own(x),
    reshape(x, shape) {
      if (sizeOf(shape) !== sizeOf(x.shape))
        throw new KvError('ops.reshape', `[${x.shape}] has ${sizeOf(x.shape)} elements, [${shape}] ${sizeOf(shape)}`);
      const { lengths: _, ...flat } = x;
      return { ...flat, shape };
    },
  });
}

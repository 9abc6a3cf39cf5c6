import { cpu, KvError, readCpu, sizeOf } from '@kv/core';
import type { Ops } from '@kv/core';
import type { Recording } from './encode.ts';
import { elementwiseOps } from './ops/elementwise.ts';
import { kernelOp } from './ops/kernel.ts';
import { rankOp } from './ops/rank.ts';
import { reduceOps } from './ops/reduce.ts';
import { slotOps } from './ops/slots.ts';

/** Every operation of core, recorded: nothing here waits for the device or reads from it. */
export function gpuOps(g: Recording): Ops {
  const elementwise = elementwiseOps(g);
  return {
    ...elementwise, ...reduceOps(g), ...slotOps(g), ...rankOp(g), ...kernelOp(g, elementwise.mul),
    from(array, dtype, lengths) {
      const { data, shape } = readCpu(cpu.ops.from(array, dtype)); // checked and row-major
      return g.upload(data, shape, lengths && g.own(lengths));
    },
    reshape(x, shape) {
      if (sizeOf(shape) !== sizeOf(x.shape)) throw new KvError('ops.reshape', `[${x.shape}] has ${sizeOf(x.shape)} elements, [${shape}] ${sizeOf(shape)}`);
      const { memory, dtype } = g.own(x);
      return { shape, dtype, memory } as typeof x;
    },
  };
}

import { sizeOf } from '@kv/core/engine';
import type { Tensor } from '@kv/core';
import type { Commands } from '../commands.ts';
import { dispatch, type GpuKernel, type Space } from '../kernel.ts';

interface DispatchCall {
  /** Shape of the result. */
  readonly space: Space;
  /** Elements or workgroups. @defaultValue the whole space */
  readonly count?: number;
  readonly buffers: Readonly<Record<string, Tensor | undefined>>;
  readonly scalars?: Readonly<Record<string, number>>;
}

/** Records a kernel over rows, slots and channels. */
export const run = (
  commands: Commands,
  kernel: GpuKernel,
  { space, count = sizeOf(space), buffers, scalars = {} }: DispatchCall,
): void => dispatch(commands, kernel, buffers, scalars, count, { space });

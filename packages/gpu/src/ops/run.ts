import { sizeOf } from '@kv/core/engine';
import type { Tensor } from '@kv/core';
import type { Commands } from '../commands.ts';
import { dispatch, type Kernel, type Space } from '../kernel.ts';

interface Call {
  /** Of the result. */
  readonly space: Space;
  /** Elements or workgroups. @defaultValue the whole space */
  readonly count?: number;
  readonly buffers: Readonly<Record<string, Tensor | undefined>>;
  readonly scalars?: Readonly<Record<string, number>>;
}

/** Records a kernel over rows, slots and channels. */
export const run = (
  commands: Commands,
  kernel: Kernel,
  { space, count = sizeOf(space), buffers, scalars = {} }: Call,
): void => dispatch(commands, kernel, buffers, scalars, count, { space });

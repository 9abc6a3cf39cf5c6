import { keys, scorer, selector } from '@kv/core';
import { cpu } from '@kv/cpu';
import type { Backend, Piece } from '@kv/core';
import { backend } from '../../src/backend.ts';
import type { BackendOptions } from '../../src/backend.ts';
import { field } from './field.ts';
import type { Field } from './field.ts';

/** A device whose exponential is off and whose selection keeps one slot less. */
const device: Backend = {
  ...cpu,
  name: 'device',
  ops: {
    ...cpu.ops,
    exp: (x) => cpu.ops.mul(cpu.ops.exp(x), 1.01),
    select: (scores, budgets, masks) => cpu.ops.select(scores, cpu.ops.sub(budgets, 1), masks),
  },
};
export const backends: Field = field<'scores' | 'kept', Piece<any, any>, BackendOptions>('backend', backend, {
  good: scorer('norm', { needs: [keys] }, ({ ops, keys: k }) => ops.norm(k))(),
  mutants: {
    scores: scorer('exp', { needs: [keys] }, ({ ops, keys: k }) => ops.exp(ops.sub(0, ops.norm(k))))(),
    kept: selector('best', {}, ({ ops, scores, budgets }) => ops.select(scores, budgets))(),
  },
  options: { backend: device },
});

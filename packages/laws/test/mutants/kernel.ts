import { kernel as declared } from '@kv/core';
import { cpu } from '@kv/cpu';
import { primitivesOf, withMaths } from '@kv/core/engine';
import type { Backend, Kernel, Ops } from '@kv/core';
import { kernel } from '../../src/kernel.ts';
import type { KernelOptions } from '../../src/kernel.ts';
import { field } from './field.ts';
import type { Field } from './field.ts';

type Ref = Kernel<{ readonly x: 'f32' }, Record<never, 'f32'>>['ref'];
const scaled =
  (by: (slot: number, length: number, slots: number) => number): Ref =>
  ({ x }, _, out, lengths) => {
    const n = x.shape[1];
    for (let i = 0; i < out.length; i++) out[i] = x.data[i] * by(i % n, lengths[Math.floor(i / n)], n);
  };
const double = (id: string) =>
  declared({
    id,
    inputs: { x: 'f32' },
    ragged: 'x',
    per: 'element',
    wgsl: '',
    output: { dtype: 'f32', shape: ({ x }) => x },
    ref: scaled(() => 2),
  });
/** Results of a device that follows these references instead. */
const device: Readonly<Record<string, Ref>> = {
  'one workgroup only': scaled((slot) => (slot < 64 ? 2 : 0)),
  'no raggedness': scaled((_, length, slots) => (length < slots ? 3 : 2)),
};
const host = primitivesOf(cpu.ops);
const ops: Ops = withMaths({
  ...host,
  kernel: (k, inputs, params) => host.kernel({ ...k, ref: device[k.id] ?? k.ref }, inputs, params),
});
const backend: Backend = { ...cpu, name: 'device', ops };
export const kernels: Field = field<'sizes' | 'ragged', Kernel, KernelOptions>('kernel', kernel, {
  good: double('double'),
  mutants: { sizes: double('one workgroup only'), ragged: double('no raggedness') },
  options: { backend },
});

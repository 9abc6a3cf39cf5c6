import { inputSignal, kernel } from '@kv/core';
import { cpu } from '@kv/cpu';
import { primitivesOf, withMaths } from '@kv/core/engine';
import type { Backend, InputSignal, Ops, Tensor } from '@kv/core';
import { ofInput } from '../../src/input-signal.ts';
import type { InputSignalOptions } from '../../src/input-signal.ts';
import { field } from './field.ts';
import type { Field } from './field.ts';

/** Returns a signal of one row a layer: the sum of a token's channels, `[1, m]`, as `of` changes it. */
const sums = (name: string, of: (ops: Ops, sum: Tensor) => Tensor = (_, sum) => sum): InputSignal =>
  inputSignal(name, { rows: 'layer' }, ({ ops, input }) => of(ops, ops.reduce('sum', input, 'channels')));

const twice = kernel({
  id: 'twice on the host alone',
  inputs: { x: 'f32' },
  output: { shape: ({ x }) => x },
  wgsl: '',
  ref({ x }, _, out) {
    for (let i = 0; i < out.length; i++) out[i] = 2 * x.data[i];
  },
});
const host = primitivesOf(cpu.ops);
/** A device that runs a kernel otherwise than its reference. */
const backend: Backend = {
  ...cpu,
  name: 'device',
  ops: withMaths({
    ...host,
    kernel: (k, inputs, params) => (k.id === twice.id ? host.mul(inputs['x'], 3) : host.kernel(k, inputs, params)),
  }),
};

export const inputSignals: Field = field<keyof typeof ofInput, InputSignal, InputSignalOptions>(
  "signal of a layer's input",
  ofInput,
  {
    good: sums('sums'),
    mutants: {
      finite: sums('logarithms of what may be negative', (ops, sum) => ops.log(sum)),
      blocks: sums('less than the largest of the block', (ops, sum) => ops.sub(sum, ops.reduce('max', sum, 'slots'))),
      backend: sums('another device kernel', (ops, sum) => ops.kernel(twice, { x: sum })),
    },
    options: { backend },
  },
);

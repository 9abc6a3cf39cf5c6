import fc from 'fast-check';
import { cpu } from '@kv/cpu';
import type { Backend, HostArray, Kernel, Ops, Tensor } from '@kv/core';
import { agree } from './compare.ts';
import { claim, lawsOf, TOLERANCE } from './law.ts';
import type { Claim, Claims, LawOptions } from './law.ts';
import { random } from './random.ts';

/** Host inputs of one kernel call; `lengths` makes an input ragged. */
export interface KernelInputs {
  readonly inputs: Readonly<Record<string, HostArray & { readonly lengths?: readonly number[] | undefined }>>;
  readonly params?: Readonly<Record<string, number>> | undefined;
}
/** Rows, slots and, if ragged, the valid slots of each row. */
export interface KernelSize {
  readonly rows: number;
  readonly slots: number;
  readonly lengths?: readonly number[] | undefined;
  readonly seed: number;
}
/** Options of `kernelLaws`. */
export interface KernelOptions extends LawOptions {
  /** The backend under test. @defaultValue the CPU, whose kernels are the references, with NaN in what they may not read */
  readonly backend?: Backend | undefined;
  /**
   * Inputs of a size that the kernel accepts. @defaultValue every input `[rows, slots]`: f32 in -1 .. 1, u32 ascending
   * in each row; every parameter 1
   */
  readonly make?: ((size: KernelSize) => KernelInputs) | undefined;
}

/** Sizes around the border of a workgroup, where kernels tend to fail. */
export const SIZES: readonly number[] = [0, 1, 2, 63, 64, 65, 127, 128, 129];
const ragged: fc.Arbitrary<KernelSize> = fc
  .record({ lengths: fc.array(fc.nat(20), { minLength: 1, maxLength: 4 }), seed: fc.nat(0xffff) })
  .map(({ lengths, seed }) => ({ rows: lengths.length, slots: Math.max(1, ...lengths), lengths, seed }));
const dense: fc.Arbitrary<KernelSize> = fc.record({
  rows: fc.integer({ min: 1, max: 4 }),
  slots: fc.oneof(fc.constantFrom(...SIZES), fc.nat(20)),
  seed: fc.nat(0xffff),
});

const anything =
  (kernel: Kernel) =>
  ({ rows, slots, lengths, seed }: KernelSize): KernelInputs => {
    const next = random(seed);
    return {
      inputs: Object.fromEntries(
        Object.entries(kernel.inputs).map(([name, dtype]) => [
          name,
          {
            data:
              dtype === 'f32'
                ? Float32Array.from({ length: rows * slots }, () => next() * 2 - 1)
                : Uint32Array.from({ length: rows * slots }, (_, i) => i % Math.max(1, slots)),
            shape: [rows, slots],
            lengths,
          },
        ]),
      ),
      params: Object.fromEntries(Object.keys(kernel.params).map((name) => [name, 1])),
    };
  };
function call(ops: Ops, kernel: Kernel, { inputs, params }: KernelInputs): Tensor {
  const tensors = Object.entries(inputs).map(([name, { lengths, ...array }]) => [
    name,
    ops.from(
      array,
      kernel.inputs[name],
      lengths && ops.from({ data: Uint32Array.from(lengths), shape: [lengths.length] }, 'u32'),
    ),
  ]);
  return ops.kernel(kernel, Object.fromEntries(tensors) as Record<string, Tensor>, params);
}
/** Returns inputs with NaN beyond the valid slots of rows, where the kernel is told how many these are. */
const spoilt = (kernel: Kernel, { inputs, params }: KernelInputs): KernelInputs => ({
  inputs: Object.fromEntries(
    Object.entries(inputs).map(([name, input]) => {
      if (kernel.ragged === undefined || kernel.inputs[name] !== 'f32' || !input.lengths) return [name, input];
      const data = Float32Array.from(input.data),
        width = data.length / Math.max(1, input.shape[0]);
      for (const [row, length] of input.lengths.entries())
        data.fill(NaN, row * width + (length * width) / Math.max(1, input.shape[1]), (row + 1) * width);
      return [name, { ...input, data }];
    }),
  ),
  params,
});
const numbersOf = ({ inputs }: KernelInputs): readonly (readonly [string, readonly number[]])[] =>
  Object.entries(inputs).map(([name, { data }]) => [name, Array.from(data)]);
const differs =
  (sizes: fc.Arbitrary<KernelSize>): Claim<Kernel, KernelOptions> =>
  (kernel, { backend, make = anything(kernel), tolerance = TOLERANCE } = {}) =>
    fc.asyncProperty(sizes, async (size) => {
      const given = make(size),
        before = numbersOf(given),
        results = [];
      for (const [b, of] of [
        backend ? ([backend, given] as const) : ([cpu, spoilt(kernel, given)] as const),
        [cpu, given] as const,
      ]) {
        const [read] = await b.read([call(b.ops, kernel, of)]),
          { data, shape, lengths } = read,
          [rows = 0, ...rest] = shape;
        const width = rest.reduce((a, c) => a * c, 1),
          inner = width / Math.max(1, rest[0] ?? 1);
        results.push({
          rows,
          slots: width,
          data,
          valid: Array.from({ length: rows }, (_, r) => (lengths?.[r] ?? rest[0] ?? 1) * inner),
        });
      }
      for (const [i, [name, numbers]] of numbersOf(given).entries())
        claim(
          numbers.every((x, at) => Object.is(x, before[i][1][at])),
          () => `${kernel.id} must not write its input '${name}'`,
        );
      agree(
        `${kernel.id} on ${backend?.name ?? 'rows with NaN beyond their slots'}`,
        results[0],
        results[1],
        tolerance,
      );
    });

/**
 * Claims that a device kernel agrees with its reference: on dense inputs of sizes around a workgroup (0, 1, 63, 64, 65,
 * ...), and on ragged rows, some empty. Without a backend, that the reference gives the same twice, whatever is beyond the
 * valid slots of ragged rows, and writes no input.
 */
export const kernel = { sizes: differs(dense), ragged: differs(ragged) } satisfies Claims<Kernel, KernelOptions>;

/** The laws of a kernel on a backend. They are asynchronous. */
export const kernelLaws = lawsOf<Kernel, KernelOptions>(kernel, ['backend', 'make']);

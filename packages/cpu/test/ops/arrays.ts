import fc from 'fast-check';
import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import { cpu } from '@kv/cpu';
import type { Tensor } from '@kv/core';
import type { Rows } from './ops.oracle.ts';

const { ops } = cpu;
type Layout = 'dense' | 'offset' | 'strided' | 'transposed';
/**
 * A random array: its shape, its valid slots and its memory layout. Half of the numbers are on a coarse grid, so that
 * ties happen.
 */
export interface Spec {
  readonly shape: readonly number[];
  readonly lengths?: readonly number[] | undefined;
  readonly layout: Layout;
  readonly seed: number;
  readonly positive: boolean;
}

export function numbers(seed: number): () => number {
  let a = seed >>> 0;
  return () => {
    a = (Math.imul(a, 1664525) + 1013904223) >>> 0;
    return (a >>> 8) / 2 ** 24;
  };
}
const layouts = fc.constantFrom<Layout>('dense', 'offset', 'strided', 'transposed');
const ragged = (rows: number, slots: number): fc.Arbitrary<readonly number[] | undefined> =>
  fc.option(fc.array(fc.nat(slots), { minLength: rows, maxLength: rows }), { nil: undefined });
/** Arrays of a shape, in any layout, dense or ragged, some rows empty. */
export const specs = (
  shape: readonly number[],
  { positive = false, dense = false }: { readonly positive?: boolean; readonly dense?: boolean } = {},
): fc.Arbitrary<Spec> =>
  fc.record({
    shape: fc.constant(shape),
    lengths: dense ? fc.constant(undefined) : ragged(shape[0], shape[1] ?? 1),
    layout: layouts,
    seed: fc.nat(2 ** 31),
    positive: fc.constant(positive),
  });

/** Returns a real ndarray over f32 memory, with gaps, an offset or swapped axes as the layout says. */
export function nd({ shape, layout, seed, positive }: Spec): NdArray<Float32Array> {
  const next = numbers(seed + 1),
    coarse = next() < 0.5;
  const number = (): number => {
    const x = positive ? next() : next() * 8 - 4;
    return coarse ? Math.round(x * 2) / 2 : x;
  };
  const fill = (size: number): Float32Array => Float32Array.from({ length: size }, number);
  const size = (s: readonly number[]): number => s.reduce((a, b) => a * b, 1);
  if (layout === 'transposed') {
    const swapped = [...shape].reverse();
    return ndarray(fill(size(swapped)), swapped).transpose(...swapped.map((_, i) => shape.length - 1 - i));
  }
  if (layout === 'offset') return ndarray(fill(size(shape) + 5), [...shape], undefined, 3);
  if (layout === 'strided') {
    const wide = shape.map((s) => s * 2 + 1);
    return ndarray(fill(size(wide)), wide)
      .lo(...shape.map(() => 1))
      .step(...shape.map(() => 2))
      .hi(...shape);
  }
  return ndarray(fill(size(shape)), [...shape]);
}
/** Returns the tensor of a spec, made from the ndarray itself. */
export function tensor(spec: Spec): Tensor {
  const { lengths } = spec;
  return ops.from(
    nd(spec),
    'f32',
    lengths && ops.from({ data: Uint32Array.from(lengths), shape: [lengths.length] }, 'u32'),
  );
}
/** The same for an oracle. */
export const rows = (spec: Spec): Rows => ({ array: nd(spec), ...(spec.lengths && { lengths: spec.lengths }) });

export const size = (max: number): fc.Arbitrary<number> => fc.integer({ min: 1, max });
/** Numbers of KV heads, query heads per KV head, slots and channels. */
export const dims: fc.Arbitrary<readonly [kv: number, group: number, slots: number, channels: number]> = fc.tuple(
  size(3),
  size(3),
  size(9),
  size(4),
);

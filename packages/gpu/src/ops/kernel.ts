import { KvError } from '@kv/core';
import { sizeOf, takesLengths } from '@kv/core/engine';
import type { Kernel as PieceKernel, Tensor, Primitives } from '@kv/core';
import type { Commands } from '../commands.ts';
import { dispatch, THREADS, type GpuKernel } from '../kernel.ts';
import { bytesOf, sizes } from '../tensor.ts';
import type { Numeric } from './elementwise.ts';
import { lengthsFor } from './ragged.ts';

/** Function shared by pieces' kernels per workgroup: pairs are combined 16 by 16, with few barriers. */
const BEST = /* wgsl */ `
const THREADS = ${THREADS}u;
var<workgroup> best_keys: array<u32, ${THREADS}>;
var<workgroup> best_places: array<u32, ${THREADS}>;
fn best_16(to: u32, first: u32, step: u32) {
  var key = best_keys[first];
  var place = best_places[first];
  for (var i = 1u; i < 16u; i++) {
    let k = best_keys[first + i * step];
    let p = best_places[first + i * step];
    if (k > key || (k == key && p < place)) { key = k; place = p; }
  }
  best_keys[to] = key;
  best_places[to] = place;
}
fn best(lane: u32, key: u32, place: u32) -> u32 {
  workgroupBarrier();
  best_keys[lane] = key;
  best_places[lane] = place;
  workgroupBarrier();
  if (lane < 16u) { best_16(lane, lane, 16u); }
  workgroupBarrier();
  if (lane == 0u) { best_16(0u, 0u, 1u); }
  return workgroupUniformLoad(&best_places[0]);
}`;

/** Returns a piece's kernel in the form of this package's kernels; the shapes of its inputs precede its parameters. */
function compiled({ id, inputs, params, output, ragged, wgsl, per }: PieceKernel): GpuKernel {
  const names = Object.keys(inputs),
    own = names.map((x) => `${x}_shape = vec3<u32>(params.${x}_x, params.${x}_y, params.${x}_z); `),
    shapes = names.map((x) => `var<private> ${x}_shape: vec3<u32>;`);
  return {
    id,
    key: `piece:${id}:${wgsl}`,
    per: per === 'group' ? 'group' : 'element',
    buffers: {
      ...inputs,
      ...(ragged !== undefined && { [`${ragged}_lengths`]: 'u32' }),
      output: [output.dtype, 'write'],
    },
    scalars: {
      ...Object.fromEntries(names.flatMap((x) => ['x', 'y', 'z'].map((axis) => [`${x}_${axis}`, 'u32' as const]))),
      ...params,
    },
    before: own.join(''),
    source: `${shapes.join('\n')}\n${per === 'group' ? BEST : ''}${wgsl}`,
  };
}

const known = new WeakMap<PieceKernel, GpuKernel>();

/** Returns the operation that runs pieces' kernels, with the bindings that `Kernel` promises to `run`. */
export function kernelOp(
  numeric: Numeric,
  g: Commands,
  { softmax }: Pick<Primitives, 'softmax'>,
): Pick<Primitives, 'kernel'> {
  return {
    kernel(kernel, given, params = {}) {
      const names = Object.keys(kernel.inputs);
      const inputs = names.map((name): Tensor => {
        const x = given[name],
          want = kernel.inputs[name];
        if (!x)
          throw new KvError(kernel.id, `expected the input '${name}', got ${Object.keys(given).join(', ') || 'none'}`);
        if (want === 'u32' && x.dtype !== 'u32')
          throw new KvError(kernel.id, `expected the input '${name}' as u32, got ${x.dtype}`);
        return want === 'u32' ? x : numeric(x);
      });
      for (const name of Object.keys(kernel.params))
        if (params[name] === undefined)
          throw new KvError(
            kernel.id,
            `expected the parameter '${name}', got ${Object.keys(params).join(', ') || 'none'}`,
          );
      const shape = kernel.output.shape(Object.fromEntries(names.map((name, i) => [name, inputs[i].shape])), params);
      const like = kernel.ragged === undefined ? undefined : inputs[names.indexOf(kernel.ragged)];
      const lengths = like && lengthsFor(g, like, sizes(like)[0]);
      const output = g.make(
        shape,
        kernel.output.dtype,
        like?.lengths && takesLengths(kernel.output, shape, sizes(like)[0], sizes(like)[1])
          ? lengthsFor(g, like, shape[0])
          : undefined,
      );
      const own = Object.fromEntries(names.map((name, i) => [name, inputs[i]])),
        bound = { ...own, ...(lengths && { [`${kernel.ragged}_lengths`]: lengths }), output },
        axes = names.flatMap((name, i) => sizes(inputs[i]).map((n, axis) => [`${name}_${'xyz'[axis]}`, n]));
      const form = known.get(kernel) ?? compiled(kernel);
      known.set(kernel, form);
      dispatch(
        g,
        form,
        bound,
        { ...Object.fromEntries(axes), ...params },
        sizeOf(shape) === 0 ? 0 : kernel.per === 'element' ? sizeOf(shape) : (shape[0] ?? 1),
        { operations: () => kernel.operations?.(own, params) ?? bytesOf(Object.values(bound)) / 4 },
      );
      return kernel.then === 'softmax' ? softmax(output) : output;
    },
  };
}

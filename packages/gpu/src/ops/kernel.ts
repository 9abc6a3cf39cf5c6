import { KvError } from '@kv/core';
import { sizeOf, takesLengths } from '@kv/core/engine';
import type { Kernel, Tensor, DType, Primitives } from '@kv/core';
import type { Recording } from '../commands.ts';
import { THREADS } from '../kernel.ts';
import { bits, shaderText } from '../shader-text.ts';
import type { Shader } from '../shader-text.ts';
import { bytesOf, sizes } from '../tensor.ts';
import type { Numeric } from './elementwise.ts';
import { lengthsFor } from './ragged.ts';

/** What workgroups of pieces' kernels share: pairs joined 16 by 16, few barriers. */
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

/** Kernels that pieces bring: `run` with the bindings that its declaration promises. */
export const kernelOp = (
  numeric: Numeric,
  g: Recording,
  { softmax }: Pick<Primitives, 'softmax'>,
): Pick<Primitives, 'kernel'> => ({
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
    const uniform = [
      kernel.per === 'element' ? sizeOf(shape) : (shape[0] ?? 1),
      ...inputs.flatMap((x) => sizes(x)),
      ...Object.entries<DType>(kernel.params).map(([name, type]) => bits(params[name], type)),
    ];
    const bound = [...inputs, ...(lengths ? [lengths] : []), output];
    g.record({
      key: `piece:${kernel.id}:${kernel.wgsl}`,
      shader: () => kernelShader(kernel),
      bound,
      scalars: Uint32Array.from(uniform),
      groups: sizeOf(shape) === 0 ? 0 : kernel.per === 'group' ? uniform[0] : Math.ceil(uniform[0] / THREADS),
      operations: () =>
        kernel.operations?.(Object.fromEntries(names.map((name, i) => [name, inputs[i]])), params) ??
        bytesOf(bound) / 4,
    });
    return kernel.then === 'softmax' ? softmax(output) : output;
  },
});

/** Bindings in order of the inputs, lengths, output; dimensions of the inputs before the parameters. */
function kernelShader({ id, inputs, params, output, ragged, wgsl, per }: Kernel): Shader {
  const names = Object.keys(inputs);
  const axes = names.flatMap((name) => ['x', 'y', 'z'].map((axis) => [`${name}_${axis}`, 'u32'] as const));
  return shaderText({
    id,
    per: per === 'group' ? 'group' : 'element',
    threads: THREADS,
    buffers: [
      ...names.map((name) => ({ name, type: inputs[name] })),
      ...(ragged === undefined ? [] : [{ name: `${ragged}_lengths`, type: 'u32' }]),
      { name: 'output', type: output.dtype, write: true },
    ],
    scalars: [...axes, ...Object.entries<DType>(params)],
    source: `${names.map((name) => `var<private> ${name}_shape: vec3<u32>;`).join('\n')}\n${per === 'group' ? BEST : ''}${wgsl}`,
    before: names.map((x) => `${x}_shape = vec3<u32>(params.${x}_x, params.${x}_y, params.${x}_z); `).join(''),
  });
}

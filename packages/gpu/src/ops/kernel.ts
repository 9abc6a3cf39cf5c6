import { KvError, sizeOf, takesLengths } from '@kv/core';
import type { DType, Kernel, Primitives } from '@kv/core';
import { bits } from '../encode.ts';
import type { Recording } from '../encode.ts';
import { UNIFORM_BYTES } from '../recorder.ts';
import { THREADS } from '../shader.ts';
import type { Shader } from '../shader.ts';
import { sizes } from '../tensor.ts';
import type { GpuTensor } from '../tensor.ts';
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
export const kernelOp = (numeric: Numeric, g: Recording): Pick<Primitives, 'kernel'> => ({
  kernel(kernel, given, params = {}) {
    const names = Object.keys(kernel.inputs);
    const inputs = names.map((name): GpuTensor => {
      const x = given[name],
        want = kernel.inputs[name];
      if (!x)
        throw new KvError(kernel.id, `expected the input '${name}', got ${Object.keys(given).join(', ') || 'none'}`);
      if (want === 'u32' && x.dtype !== 'u32')
        throw new KvError(kernel.id, `expected the input '${name}' as u32, got ${x.dtype}`);
      return want === 'u32' ? g.own(x) : numeric(x);
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
    if (uniform.length > UNIFORM_BYTES / 4)
      throw new KvError(kernel.id, `has ${uniform.length} scalars, expected at most ${UNIFORM_BYTES / 4}`);
    g.runRaw(
      `piece:${kernel.id}:${kernel.wgsl}`,
      () => kernelShader(kernel),
      [...inputs, ...(lengths ? [lengths] : []), output],
      Uint32Array.from(uniform),
      sizeOf(shape) === 0 ? 0 : kernel.per === 'group' ? uniform[0] : Math.ceil(uniform[0] / THREADS),
    );
    return output;
  },
});

/** The whole text: bindings in order of the inputs, lengths, output; one uniform with dimensions and parameters. */
function kernelShader({ id, inputs, params, output, ragged, wgsl, per }: Kernel): Shader {
  const group = per === 'group',
    names = Object.keys(inputs),
    scalars = Object.entries(params);
  const arrays = [
    ...names.map((name) => [name, inputs[name], 'read']),
    ...(ragged === undefined ? [] : [[`${ragged}_lengths`, 'u32', 'read']]),
    ['output', output.dtype, 'read_write'],
  ] as const;
  const code = /* wgsl */ `
struct Host { count: u32, ${names.flatMap((name) => ['x', 'y', 'z'].map((axis) => `${name}_${axis}: u32, `)).join('')}${scalars.map(([name, type]) => `${name}: ${type}, `).join('')} }
@group(1) @binding(0) var<uniform> host: Host;
${arrays.map(([name, type, access], i) => `@group(0) @binding(${i}) var<storage, ${access}> ${name}: array<${type}>;`).join('\n')}
${names.map((name) => `var<private> ${name}_shape: vec3<u32>;`).join('\n')}
${scalars.length > 0 ? `struct Params { ${scalars.map(([name, type]) => `${name}: ${type}`).join(', ')} }\nvar<private> params: Params;` : ''}
${group ? BEST : ''}${wgsl}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) here: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let index = ${group ? 'here.y * groups.x + here.x' : `(here.y * groups.x + here.x) * ${THREADS}u + lane`};
  if (index >= host.count) { return; }
  ${names.map((name) => `${name}_shape = vec3<u32>(host.${name}_x, host.${name}_y, host.${name}_z);`).join('\n  ')}
  ${scalars.length > 0 ? `params = Params(${scalars.map(([name]) => `host.${name}`).join(', ')});` : ''}
  run(index${group ? ', lane' : ''});
}`;
  return { id, code, writes: arrays.map(([, , access]) => access === 'read_write') };
}

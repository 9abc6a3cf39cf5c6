import type { DType } from '@kv/core';

/** A compute shader, and which of its storage bindings it writes. */
export interface Shader {
  readonly id: string;
  readonly code: string;
  /** Storage bindings of group 0 in order; `true` where the kernel writes. */
  readonly writes: readonly boolean[];
}
/** A storage buffer: its name and element type in WGSL. */
export interface Binding {
  readonly name: string;
  readonly type: string;
  readonly write?: boolean;
}
export interface ShaderParts {
  readonly id: string;
  /** Bound at group 0, in order. */
  readonly buffers: readonly Binding[];
  /** Names and types of `params` behind `count`, at group 1. */
  readonly scalars: readonly (readonly [name: string, type: DType])[];
  readonly threads: number;
  /**
   * `element`: `fn run(index: u32)` for each of `count`. `group`: `fn run(group: u32, lane: u32)` for each of `count`
   * workgroups. A grid may be wider than `count`: what lies beyond does nothing.
   */
  readonly per: 'element' | 'group';
  readonly source: string;
  /** Statements before `run`. */
  readonly before?: string;
  /** Computes in `f16` too: for devices with the feature `shader-f16`. */
  readonly half?: boolean;
}

/** The whole text of a kernel around its source: bindings, scalars and entry point. */
export function shaderText({ id, buffers, scalars, threads, per, source, before = '', half }: ShaderParts): Shader {
  const declared = buffers.map(
    ({ name, type, write }, i) =>
      `@group(0) @binding(${i}) var<storage, ${write ? 'read_write' : 'read'}> ${name}: array<${type}>;`,
  );
  const start =
    per === 'element'
      ? `let index = at * ${threads}u + lane; if (index < params.count) { ${before}run(index); }`
      : `if (at < params.count) { ${before}run(at, lane); }`;
  const code = /* wgsl */ `${half ? 'enable f16;' : ''}
struct Params { ${[['count', 'u32'], ...scalars].map(([name, type]) => `${name}: ${type}`).join(', ')} }
@group(1) @binding(0) var<uniform> params: Params;
${declared.join('\n')}
${source}
@compute @workgroup_size(${threads})
fn main(
  @builtin(workgroup_id) here: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let at = here.y * groups.x + here.x;
  ${start}
}`;
  return { id, code, writes: buffers.map(({ write = false }) => write) };
}

const number = new DataView(new ArrayBuffer(4));
/** The bits of a scalar as its WGSL type holds it. */
export function bits(value: number, type: DType): number {
  if (type === 'u32') number.setUint32(0, value);
  else number.setFloat32(0, value);
  return number.getUint32(0);
}

import { KvError } from '@kv/core';
import { sizeOf } from '@kv/core/engine';
import type { Tensor, DType } from '@kv/core';
import { bits, shaderText } from '@kv/gpu';
import type { Commands, Shader } from '@kv/gpu';

/** A kernel as data; its storage buffers are bound in the order in which they stand here. */
export interface KernelDef<B extends string, S extends string> {
  /** Unique among kernels with another text. */
  readonly id: string;
  /** Element type in WGSL; `write` where the kernel writes. */
  readonly buffers: Readonly<Partial<Record<B, string | readonly [type: string, access: 'write']>>>;
  readonly scalars: Readonly<Record<S, DType>>;
  /** Of a workgroup. @defaultValue 256 */
  readonly threads?: number;
  /**
   * `element`: `fn run(index: u32)` for each of `count`. `group`: `fn run(group: u32, lane: u32)` for each of `count`
   * workgroups. @defaultValue 'element'
   */
  readonly per?: 'element' | 'group';
  /** Functions of WGSL; scalars are in `params`, with `count`. */
  readonly source: string;
  /** Computes in `f16` too: for devices with the feature `shader-f16`. */
  readonly half?: boolean;
  /** Additions, multiplications, comparisons and functions of a call. @defaultValue none: numbers are moved */
  operations?(scalars: Readonly<Record<S, number>>): number;
}

/** A kernel with its whole text. */
export interface Kernel<B extends string, S extends string> {
  readonly shader: Shader;
  readonly buffers: readonly B[];
  readonly scalars: readonly (readonly [name: S, type: DType])[];
  /** Elements of a workgroup: its threads, or 1 for kernels of whole workgroups. */
  readonly elements: number;
  readonly operations: KernelDef<B, S>['operations'];
}

/** Any number of kernels, each made once. */
export function variants<A extends readonly unknown[], K>(make: (...args: A) => K): (...args: A) => K {
  const made = new Map<string, K>();
  return (...args) => {
    const key = JSON.stringify(args);
    let found = made.get(key);
    if (found === undefined) made.set(key, (found = make(...args)));
    return found;
  };
}

/** Puts a kernel's text together. */
export function kernel<B extends string, S extends string>({
  id,
  buffers,
  scalars,
  threads = 256,
  per = 'element',
  source,
  half = false,
  operations,
}: KernelDef<B, S>): Kernel<B, S> {
  const bindings = (Object.entries(buffers) as [B, string | readonly [string, 'write']][]).map(([name, type]) => ({
    name,
    type: typeof type === 'string' ? type : type[0],
    write: typeof type !== 'string',
  }));
  const names = Object.entries(scalars) as [S, DType][];
  return {
    shader: shaderText({ id: `model:${id}`, buffers: bindings, scalars: names, threads, per, source, half }),
    buffers: bindings.map(({ name }) => name),
    scalars: names,
    elements: per === 'element' ? threads : 1,
    operations,
  };
}

/**
 * Records `count` elements or workgroups of a kernel; none for a count of 0. Buffers that this variant does not bind
 * may be left out. Tensors have the shape of what is read or written of them,
 * by which bytes are counted, and `again` bytes more.
 */
export function dispatch<B extends string, S extends string>(
  commands: Commands,
  { shader, buffers, scalars, elements, operations }: Kernel<B, S>,
  given: Readonly<Partial<Record<B, Tensor | undefined>>>,
  values: Readonly<Record<S, number>>,
  count: number,
  again = 0,
): void {
  const bound = buffers.map((name) => given[name] ?? missing(shader.id, name));
  const moved = bound.reduce((sum, { shape }) => sum + 4 * sizeOf(shape), again);
  commands.dispatch(
    shader,
    bound,
    Uint32Array.from([count, ...scalars.map(([name, type]) => bits(values[name], type))]),
    Math.ceil(count / elements),
    moved,
    operations && (() => operations(values)),
  );
}

function missing(id: string, name: string): never {
  throw new KvError(id, `expected the buffer '${name}', got none`);
}

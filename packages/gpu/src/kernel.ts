import type { Tensor, DType } from '@kv/core';
import { shaderText } from './shader-text.ts';
import type { Shader } from './shader-text.ts';

/** Threads of a workgroup, everywhere: the default limit of WebGPU. */
export const THREADS = 256;

/**
 * How a kernel sees elements: of f32 and u32 tensors, `number` reads f32, `index` u32 of the same value, `bits` the raw
 * 32 bits.
 */
export type Element = DType | 'number' | 'index' | 'bits';

/**
 * A kernel as data. Of every input `x` there is in scope: `x_rows` (0 where it was left out) to `x_channel_step` in
 * `params`,
 * `x_base(row)` (where the row that stands for result row `row` begins), `x_get(at)` (an element as it is declared),
 * `x_at(row, slot, channel)`, and for those in `ragged` `x_valid(row)`. `params` also holds the result's `rows`,
 * `slots` and
 * `channels`, and `count`.
 */
export interface KernelDef {
  /** Unique among kernels with another source. */
  readonly id: string;
  readonly inputs: Readonly<Record<string, Element>>;
  /** Inputs whose lengths are bound. */
  readonly ragged?: readonly string[];
  /** Inputs of which the shape and lengths are read, and no element. */
  readonly shapes?: readonly string[];
  readonly outputs: Readonly<Record<string, DType>>;
  readonly params?: Readonly<Record<string, DType>>;
  /**
   * `element`: `fn run(index: u32)` for each of `count`. `group`: `fn run(group: u32, lane: u32)` for each of `count`
   * workgroups. @defaultValue 'element'
   */
  readonly per?: 'element' | 'group';
  readonly source: string;
  /**
   * Additions, multiplications, comparisons and functions of a call.
   *
   * @defaultValue one for each of `count` elements, or, by workgroups, for each element of the space
   */
  operations?(call: Required<Pick<Call, 'space' | 'count' | 'params'>>): number;
}

/** One dispatch of a kernel. */
export interface Call {
  /** Rows, slots and channels of the result. */
  readonly space: readonly [rows: number, slots: number, channels: number];
  /** Elements or workgroups, the whole space if left out. */
  readonly count?: number;
  /** A missing input reads as `NAME_rows` 0. */
  readonly inputs?: Readonly<Record<string, Tensor | undefined>>;
  readonly outputs: Readonly<Record<string, Tensor>>;
  readonly params?: Readonly<Record<string, number>>;
}

const VIEW = ['rows', 'row_step', 'slot_step', 'channel_step', 'slots', 'lengths'] as const;

/** Names of all scalars in the uniform, in order. */
export const scalars = ({ inputs, params = {} }: KernelDef): readonly string[] => [
  'count',
  'rows',
  'slots',
  'channels',
  ...Object.keys(inputs).flatMap((x) => VIEW.map((v) => `${x}_${v}`)),
  ...Object.keys(params),
];

/** Whether the text differs by the element type of the tensor. */
export const followsTensor = (element: Element | undefined): boolean => element === 'number' || element === 'index';
const stored = (element: Element, actual: DType): DType =>
  element === 'number' || element === 'index' ? actual : element === 'bits' ? 'u32' : element;

function view(name: string, element: Element, ragged: boolean): string {
  const type = element === 'number' ? 'f32' : element === 'bits' || element === 'index' ? 'u32' : element;
  return `
fn ${name}_base(row: u32) -> u32 { return row * params.${name}_rows / params.rows * params.${name}_row_step; }
fn ${name}_get(at: u32) -> ${type} { return ${type}(${name}[at]); }
fn ${name}_at(row: u32, slot: u32, channel: u32) -> ${type} { return ${name}_get(${name}_base(row) + slot * params.${name}_slot_step + channel * params.${name}_channel_step); }${
    ragged
      ? `
fn ${name}_valid(row: u32) -> u32 { if (params.${name}_lengths == 0u) { return params.${name}_slots; } return ${name}_lengths[row * params.${name}_lengths / params.rows]; }`
      : ''
  }`;
}

/** The whole text of a kernel for inputs of these element types. */
export function shader(def: KernelDef, actual: Readonly<Record<string, DType>>): Shader {
  const { id, inputs, ragged = [], outputs, params = {}, per = 'element', source } = def;
  const views = Object.entries(inputs).map(([x, e]) => view(x, e, ragged.includes(x)));
  return shaderText({
    id,
    per,
    threads: THREADS,
    buffers: [
      ...Object.entries(inputs).map(([name, e]) => ({ name, type: stored(e, actual[name] ?? 'f32') })),
      ...ragged.map((x) => ({ name: `${x}_lengths`, type: 'u32' })),
      ...Object.entries(outputs).map(([name, type]) => ({ name, type, write: true })),
    ],
    scalars: scalars(def)
      .slice(1)
      .map((s) => [s, params[s] ?? 'u32']),
    source: `${views.join('')}\n${source}`,
  });
}

import type { Reduction } from '@kv/core';
import { THREADS } from '../kernel.ts';
import type { GpuKernel } from '../kernel.ts';

/** The lowest finite f32 in WGSL. */
export const LOWEST = '-0x1.fffffep+127f';

/** Tests for NaN by bits, since WGSL may assume that there is none. */
export const IS_NAN: string = /* wgsl */ `fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }`;

/** The start value of a fold and how one element or partial result is added: NaN is kept. */
const JOIN = {
  sum: ['0.0', 'a + b'],
  max: [LOWEST, 'select(a, b, is_nan(b) || b > a)'],
  min: [`-(${LOWEST})`, 'select(a, b, is_nan(b) || b < a)'],
} as const;

const joins = (kind: Reduction): string => {
  const [first, join] = JOIN[kind === 'max' || kind === 'min' ? kind : 'sum'];
  return /* wgsl */ `
${IS_NAN}
fn first() -> f32 { return ${first}; }
fn join(a: f32, b: f32) -> f32 { return ${join}; }`;
};
/**
 * Returns the code after the plain fold `all` over `size` elements; `again(f)` folds f of every element. The mean is
 * corrected by the mean of the residuals, so that equal numbers have no spread.
 */
const finish = (kind: Reduction, again: (f: string) => string): string => {
  if (kind !== 'mean' && kind !== 'std') return 'result = all;';
  const mean = /* wgsl */ `if (size > 0u) { let rough = all / f32(size); let mean = rough + ${again('x - rough')} / f32(size); result = mean;`;
  return `result = all; ${mean} ${kind === 'std' ? `result = sqrt(${again('(x - mean) * (x - mean)')} / f32(size));` : ''} }`;
};

/**
 * Folds `size` elements of x that are `step` apart in one thread: rows, channels, the query heads of a KV head, or
 * (`valid`) the valid slots of a channel. Sums are made of partial sums of 32 elements, which bounds rounding errors.
 */
export const foldThread = (kind: Reduction): GpuKernel => {
  const folds: string[] = [];
  const again = (f: string): string => {
    folds.push(/* wgsl */ `fn fold${folds.length}(from_: u32, size: u32, rough: f32, mean: f32) -> f32 {
  var sum = 0.0;
  for (var start = 0u; start < size; start += 32u) {
    var part = 0.0;
    for (var i = start; i < min(start + 32u, size); i++) { let x = x_get(from_ + i * params.step); part += ${f}; }
    sum += part;
  }
  return sum;
}`);
    return `fold${folds.length - 1}(from_, size, rough, ${folds.length > 1 ? 'mean' : '0.0'})`;
  };
  const end = finish(kind, again);
  return {
    id: `fold-thread:${kind}`,
    buffers: { x: { view: 'number', ragged: true }, output: ['f32', 'write'] },
    scalars: { size: 'u32', step: 'u32', factor: 'u32', valid: 'u32' },
    operations: ({ count, size }) => count * size,
    source: /* wgsl */ `
${joins(kind)}
${folds.join('\n')}
fn run(index: u32) {
  let row = index / (params.channels * params.slots);
  var size = params.size;
  if (params.valid == 1u) { size = x_valid(row); }
  let from_ = row * params.factor * params.x_row_step + index / params.channels % params.slots * params.x_slot_step + index % params.channels * params.x_channel_step;
  var all = first();
  for (var start = 0u; start < size; start += 32u) {
    var part = first();
    for (var i = start; i < min(start + 32u, size); i++) { part = join(part, x_get(from_ + i * params.step)); }
    all = join(all, part);
  }
  var result = 0.0;
  ${end}
  output[index] = result;
}`,
  };
};

/**
 * Combines one number of each thread, 16 by 16, always in the same order; every thread gets the result. It uses few
 * barriers, since those are the main cost on software adapters.
 */
export const tree = (name: string, join: string): string => /* wgsl */ `
var<workgroup> ${name}_lanes: array<f32, ${THREADS}>;
fn ${name}_16(first: u32, step: u32) -> f32 {
  var a = ${name}_lanes[first];
  for (var i = 1u; i < 16u; i++) { let b = ${name}_lanes[first + i * step]; a = ${join}; }
  return a;
}
fn ${name}(lane: u32, mine: f32) -> f32 {
  workgroupBarrier();
  ${name}_lanes[lane] = mine;
  workgroupBarrier();
  if (lane % 16u == 0u) { ${name}_lanes[lane] = ${name}_16(lane, 1u); }
  workgroupBarrier();
  return ${name}_16(0u, 16u);
}`;
/** Operators for `tree`. */
export const TREE: Readonly<Record<'sum' | 'max', string>> = { sum: 'a + b', max: JOIN.max[1] };

/** Folds the valid slots of one row in one workgroup. */
export const foldSlots = (kind: Reduction): GpuKernel => {
  const folds: string[] = [];
  const again = (f: string): string => {
    folds.push(/* wgsl */ `fn fold${folds.length}(lane: u32, from_: u32, size: u32, rough: f32, mean: f32) -> f32 {
  var sum = 0.0;
  for (var i = lane; i < size; i += ${THREADS}u) { let x = x_get(from_ + i * params.x_slot_step); sum += ${f}; }
  return total(lane, sum);
}`);
    return `fold${folds.length - 1}(lane, from_, size, rough, ${folds.length > 1 ? 'mean' : '0.0'})`;
  };
  const end = finish(kind, again);
  return {
    id: `fold-slots:${kind}`,
    buffers: { x: { view: 'number', ragged: true }, output: ['f32', 'write'] },
    scalars: {},
    per: 'group',
    source: /* wgsl */ `
${joins(kind)}
${tree('total', JOIN[kind === 'max' || kind === 'min' ? kind : 'sum'][1])}
${folds.join('\n')}
fn run(group: u32, lane: u32) {
  let size = x_valid(group);
  let from_ = x_base(group);
  var all = first();
  for (var i = lane; i < size; i += ${THREADS}u) { all = join(all, x_get(from_ + i * params.x_slot_step)); }
  all = total(lane, all);
  var result = 0.0;
  ${end}
  if (lane == 0u) { output[group] = result; }
}`,
  };
};

import type { Reduction } from '@kv/core';
import { THREADS } from '../shader.ts';
import type { KernelDef } from '../shader.ts';

/** The lowest finite f32, as WGSL writes it. */
export const LOWEST = '-0x1.fffffep+127f';

/** NaN by its bits: WGSL may assume that there is none. */
export const IS_NAN: string = /* wgsl */ `fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }`;

/** The start of a fold and how one element or partial joins in: a NaN stays. */
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
/** What follows the plain fold `all` over `size` elements; `again(f)` folds f of every element. The mean is refined by the mean of what is left over, so that equal numbers have no spread. */
const finish = (kind: Reduction, again: (f: string) => string): string => {
  if (kind !== 'mean' && kind !== 'std') return 'result = all;';
  const mean = /* wgsl */ `if (size > 0u) { let rough = all / f32(size); let mean = rough + ${again('x - rough')} / f32(size); result = mean;`;
  return `result = all; ${mean} ${kind === 'std' ? `result = sqrt(${again('(x - mean) * (x - mean)')} / f32(size));` : ''} }`;
};

/** One thread folds `size` elements of x that stand `step` apart: rows, channels and the query heads of a KV head. */
export const foldThread = (kind: Reduction): KernelDef => {
  const folds: string[] = [];
  const again = (f: string): string => {
    folds.push(/* wgsl */ `fn fold${folds.length}(from_: u32, rough: f32, mean: f32) -> f32 {
  var sum = 0.0;
  for (var i = 0u; i < params.size; i++) { let x = x_get(from_ + i * params.step); sum += ${f}; }
  return sum;
}`);
    return `fold${folds.length - 1}(from_, rough, ${folds.length > 1 ? 'mean' : '0.0'})`;
  };
  const end = finish(kind, again);
  return {
    id: `fold-thread:${kind}`, inputs: { x: 'number' }, outputs: { output: 'f32' }, params: { size: 'u32', step: 'u32', factor: 'u32' }, per: 'element',
    source: /* wgsl */ `
${joins(kind)}
${folds.join('\n')}
fn run(index: u32) {
  let size = params.size;
  let from_ = index / (params.channels * params.slots) * params.factor * params.x_row_step + index / params.channels % params.slots * params.x_slot_step + index % params.channels * params.x_channel_step;
  var all = first();
  for (var i = 0u; i < size; i++) { all = join(all, x_get(from_ + i * params.step)); }
  var result = 0.0;
  ${end}
  output[index] = result;
}`,
  };
};

/** Joins one number of each thread: always the same tree. Every thread gets the result. */
export const tree = (name: string, join: string): string => /* wgsl */ `
var<workgroup> ${name}_lanes: array<f32, ${THREADS}>;
fn ${name}(lane: u32, mine: f32) -> f32 {
  workgroupBarrier();
  ${name}_lanes[lane] = mine;
  workgroupBarrier();
  for (var half = ${THREADS / 2}u; half > 0u; half /= 2u) {
    if (lane < half) { let a = ${name}_lanes[lane]; let b = ${name}_lanes[lane + half]; ${name}_lanes[lane] = ${join}; }
    workgroupBarrier();
  }
  return workgroupUniformLoad(&${name}_lanes[0]);
}`;
/** Joins for `tree`. */
export const TREE: Readonly<Record<'sum' | 'max', string>> = { sum: 'a + b', max: JOIN.max[1] };

/** One workgroup folds the valid slots of one row and channel. */
export const foldSlots = (kind: Reduction): KernelDef => {
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
    id: `fold-slots:${kind}`, inputs: { x: 'number' }, ragged: ['x'], outputs: { output: 'f32' }, per: 'group',
    source: /* wgsl */ `
${joins(kind)}
${tree('total', JOIN[kind === 'max' || kind === 'min' ? kind : 'sum'][1])}
${folds.join('\n')}
fn run(group: u32, lane: u32) {
  let row = group / params.channels;
  let size = x_valid(row);
  let from_ = x_base(row) + group % params.channels * params.x_channel_step;
  var all = first();
  for (var i = lane; i < size; i += ${THREADS}u) { all = join(all, x_get(from_ + i * params.x_slot_step)); }
  all = total(lane, all);
  var result = 0.0;
  ${end}
  if (lane == 0u) { output[group] = result; }
}`,
  };
};

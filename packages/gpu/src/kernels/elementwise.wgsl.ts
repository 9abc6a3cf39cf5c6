import type { Binary, Unary } from '@kv/core';
import type { GpuKernel } from '../kernel.ts';
import { IS_NAN } from './fold.wgsl.ts';

/**
 * How each operand is given, in order: a tensor in the shape of the result, a broadcast one, or a number from the host.
 */
export type OperandKind = 'whole' | 'broadcast' | 'number';
const NAMES = ['a', 'b', 'c'] as const;

/** Returns a kernel that computes `expression` of a, b and c at every element of the broadcast shape, f32. */
export function elementwise(
  id: string,
  operands: readonly OperandKind[],
  expression: string,
  functions = '',
): GpuKernel {
  const named = operands.map((kind, i) => [NAMES[i], kind] as const);
  const tensors = named.filter(([, kind]) => kind !== 'number'),
    hosts = named.filter(([, kind]) => kind === 'number');
  const value = (n: string, kind: OperandKind): string =>
    kind === 'number' ? `params.${n}_number` : kind === 'whole' ? `${n}_get(index)` : `${n}_at(row, slot, channel)`;
  return {
    id: `${id}:${operands.join('-')}`,
    buffers: {
      ...Object.fromEntries(tensors.map(([n]) => [n, { view: 'number' as const }])),
      output: ['f32', 'write'],
    },
    scalars: Object.fromEntries(hosts.map(([n]) => [`${n}_number`, 'f32'])),
    source: /* wgsl */ `
${functions}
fn run(index: u32) {
${
  operands.includes('broadcast')
    ? /* wgsl */ `
  let channel = index % params.channels;
  let slot = index / params.channels % params.slots;
  let row = index / (params.channels * params.slots);`
    : ''
}
${named.map(([n, kind]) => `  let ${n}_ = ${value(n, kind)};`).join('\n')}
  output[index] = ${expression};
}`,
  };
}

export const BINARY: Readonly<Record<Binary, string>> = {
  add: 'a_ + b_',
  sub: 'a_ - b_',
  mul: 'a_ * b_',
  div: 'a_ / b_',
  max: 'select(b_, a_, a_ > b_)',
  min: 'select(b_, a_, a_ < b_)',
  less: 'select(0.0, 1.0, a_ < b_)',
  atLeast: 'select(0.0, 1.0, a_ >= b_)',
  equal: 'select(0.0, 1.0, a_ == b_)',
};
export const UNARY: Readonly<Record<Unary, string>> = {
  exp: 'exp(a_)',
  log: 'logarithm(a_)',
  log1p: 'logarithm1(a_)',
  sqrt: 'root(a_)',
  abs: 'abs(a_)',
  floor: 'floor(a_)',
};
export const WHERE = 'select(c_, b_, a_ != 0.0)';
/** 1 - h never below half an ulp of 1, as on the CPU. */
export const ODDS = 'a_ / max(1.0 - a_, 0x1p-24f)';

/**
 * Functions in WGSL. WGSL does not define results at the edges of the domain and has no log1p; its log is accurate near
 * 1 only to an absolute 2^-21.
 */
export const FUNCTIONS: Readonly<Partial<Record<Unary, string>>> = (() => {
  const edge = /* wgsl */ `
// infinities and NaN by their bits, which no constant expression may hold
fn word(bits: u32) -> f32 { return bitcast<f32>(bits | (params.count & 0u)); }
${IS_NAN}`;
  const log = /* wgsl */ `${edge}
fn logarithm(x: f32) -> f32 {
  if (is_nan(x) || x < 0.0) { return word(0x7fc00000u); }
  if (x == 0.0) { return word(0xff800000u); }
  return log(x);
}`;
  const log1p = /* wgsl */ `${log}
fn logarithm1(x: f32) -> f32 {
  if (!(abs(x) < 0.5)) { return logarithm(1.0 + x); }
  let s = x / (2.0 + x); // log(1 + x) = 2 atanh(s), |s| <= 1/3
  let z = s * s;
  let tail = z * (1.0 / 3.0 + z * (0.2 + z * (1.0 / 7.0 + z * (1.0 / 9.0 + z * (1.0 / 11.0 + z * (1.0 / 13.0 + z * (1.0 / 15.0 + z / 17.0)))))));
  return 2.0 * s + 2.0 * s * tail;
}`;
  const sqrt = /* wgsl */ `${edge}
fn root(x: f32) -> f32 { if (x < 0.0) { return word(0x7fc00000u); } return sqrt(x); }`;
  return { log, log1p, sqrt };
})();

import { hasSimd } from '../simd/kernel.ts';
import type { LinearFactory } from './linear.ts';
import { referenceLinear } from './reference.ts';
import { simdLinear } from './simd.ts';

/** This package's kernel, which holds each weight once; plain loops where WebAssembly SIMD is missing. */
export function defaultLinear(): LinearFactory {
  return hasSimd() ? simdLinear() : referenceLinear;
}

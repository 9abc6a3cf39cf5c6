import { hasSimd } from '../simd/kernel.ts';
import type { LinearFactory } from './linear.ts';
import { referenceLinear } from './reference.ts';
import { simdLinear } from './simd.ts';

/** The fastest products of this process without anything to install: SIMD, or plain loops. */
export function defaultLinear(): LinearFactory {
  return hasSimd() ? simdLinear() : referenceLinear;
}

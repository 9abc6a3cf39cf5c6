import { hasSimd } from '../simd/kernel.ts';
import { byRows } from './by-rows.ts';
import { jaxLinear } from './jax.ts';
import type { LinearFactory } from './linear.ts';
import { referenceLinear } from './reference.ts';
import { simdLinear } from './simd.ts';

/** Rows from which on the library is within 1.3 of this package's kernel: see the table in the README. */
const LIBRARY_FROM = 256;

/** Blocks of rows go to the library `@jax-js/jax`, a few rows to this package's kernel, which has no cost per call; plain loops where WebAssembly SIMD is missing. */
export async function defaultLinear(): Promise<LinearFactory> {
  return hasSimd() ? byRows(simdLinear(), await jaxLinear(), LIBRARY_FROM) : referenceLinear;
}

// @ts-nocheck: AssemblyScript, not TypeScript
// What 8-bit activations and unpacked panels look like.

import { XB } from "./forms";

/** Bytes of what stands beside 32 activations: scale s, s * their sum, s * the sums of the first and last 16. */
export const META: usize = 16;
/** Bytes of an unpacked block: 16 outputs' codes, scales, and minima or (Q6_K) the second half's scales. */
export const CODES: usize = 512 * XB;
export const UNPACKED: usize = CODES + 128;

/** Codes of four inputs of four outputs into an unpacked block. */
// @ts-ignore: decorator
@inline
export function putCodes(to: usize, q: usize, r: usize, v: v128): void {
  const at = to + 64 * XB * q + 16 * r;
  if (FORM == 0) {
    v128.store(at, v128.and(v, i16x8.splat(0xff)));
    v128.store(at + 64, i16x8.shr_u(v, 8));
  } else v128.store(at, v);
}

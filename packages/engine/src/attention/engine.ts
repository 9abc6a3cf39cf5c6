import { hasSimd } from '../simd/kernel.ts';
import { plainEngine } from './plain.ts';
import type { RowEngine } from './row-engine.ts';
import { simdEngine } from './simd.ts';

let shared: RowEngine | undefined;

/**
 * The fastest engine of this process: SIMD, or plain loops. One is shared, since every call leaves nothing behind but
 * memory to reuse.
 */
export function defaultEngine(): RowEngine {
  return (shared ??= hasSimd() ? simdEngine() : plainEngine());
}

import { checkNumber, isCount } from '@kv/core';
import type { At } from '@kv/core';

/**
 * How far a schedule reaches in a layer: 1 - base^(power (ℓ - ℓ_s) / (N - ℓ_s)), ℓ counted from 1 and ℓ_s = ⌊3 N / 4⌋;
 * 0 below ℓ_s.
 */
export function share({ layer, layers: N }: Pick<At, 'layer' | 'layers'>, base: number, power: number): number {
  const start = Math.floor((3 * N) / 4),
    depth = Math.max(0, layer + 1 - start) / (N - start);
  return 1 - base ** (power * depth);
}

export function checked(
  piece: string,
  sinks: number,
  base: readonly [name: string, value: number],
  power: readonly [name: string, value: number],
): void {
  checkNumber(piece, 'sinks', sinks, 'a whole number of positions', isCount);
  checkNumber(piece, ...base, 'a number above 0 and at most 1', (x) => x > 0 && x <= 1);
  checkNumber(piece, ...power, 'a number of at least 0', (x) => x >= 0 && Number.isFinite(x));
}

import { number } from '@kv/core';
import type { LayerContext, Option } from '@kv/core';

/**
 * Returns how far a schedule reaches in a layer: 1 - base^(power (ℓ - ℓ_s) / (N - ℓ_s)), with ℓ counted from 1 and
 * ℓ_s = ⌊3 N / 4⌋; 0 below ℓ_s.
 */
export function reachOf(
  { layer, layers: N }: Pick<LayerContext, 'layer' | 'layers'>,
  base: number,
  power: number,
): number {
  const start = Math.floor((3 * N) / 4);
  const depth = Math.max(0, layer + 1 - start) / (N - start);
  return 1 - base ** (power * depth);
}

/** Option of the base: the share that is left in the last layer. */
export const baseOption = (fallback: number, says: string): Option<number> =>
  number(fallback, says, { above: 0, most: 1 });
export const power = number(1, 'How early in the top quarter the schedule bites: the power of the depth.', {
  least: 0,
});

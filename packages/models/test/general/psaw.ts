import { hide } from '@kv/core';
import type { View } from '@kv/core';

/** PSAW (PrHS eq. 15): layer l of N above l_s = ⌊3N/4⌋ sees the sinks and positions from ⌊(1 - φ^(α (l - l_s) / (N - l_s))) t⌋ on. */
export const psaw = ({ sinks = 4, phi = 0.7, alpha = 1 }: { sinks?: number; phi?: number; alpha?: number } = {}): View<'psaw'> => hide({ name: 'psaw', options: { sinks, phi, alpha } }, 'both', [], ({ at: { layer, layers: N } }) => {
  const start = Math.floor((3 * N) / 4), depth = Math.max(0, layer + 1 - start) / (N - start);
  return { sinks, lower: (t) => Math.floor((1 - phi ** (alpha * depth)) * t) };
});

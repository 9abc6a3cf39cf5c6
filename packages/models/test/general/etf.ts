import { freeze } from '@kv/core';
import type { Hooked } from '@kv/core';

/** ETF (PrHS eq. 16): positions below ⌊(1 - ψ^(γ (l - l_s) / (N - l_s))) t⌋, t the prompt's length, keep the previous layer's state. */
export const etf = ({ sinks = 4, psi = 0.5, gamma = 1 }: { sinks?: number; psi?: number; gamma?: number } = {}): Hooked<'etf'> => freeze({ name: 'etf', options: { sinks, psi, gamma } }, ({ layer, layers: N, promptLength: t }) => {
  const start = Math.floor((3 * N) / 4), depth = Math.max(0, layer + 1 - start) / (N - start);
  return { sinks, below: Math.floor((1 - psi ** (gamma * depth)) * t) };
});

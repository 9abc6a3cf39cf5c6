import { freeze } from '@kv/core/old';
import type { Hooked } from '@kv/core';
import { checked, share } from './decay.ts';

export interface EtfOptions {
  /** First positions, never frozen. @defaultValue 4 */
  readonly sinks?: number;
  /** Share of the prompt that the top layer still computes; 1 freezes nothing. @defaultValue 0.5 */
  readonly psi?: number;
  /** @defaultValue 1 */
  readonly gamma?: number;
}

/**
 * ETF: in a layer of the top quarter, positions below ⌊(1 - ψ^(γ (ℓ - ℓ_s) / (N - ℓ_s))) t⌋, t the prompt's length,
 * keep the previous layer's hidden state,
 * keys and values, and go through no matrix product.
 *
 * @remarks PrHS, eq. 16, figure 5 and appendix G. Prefill only.
 * @throws KvError if `sinks` is no whole number, `psi` outside (0, 1] or `gamma` negative.
 */
export function etf({ sinks = 4, psi = 0.5, gamma = 1 }: EtfOptions = {}): Hooked<'etf'> {
  checked('etf', sinks, ['psi', psi], ['gamma', gamma]);
  return freeze({ name: 'etf', options: { sinks, psi, gamma } }, (at) => ({
    sinks,
    below: Math.floor(share(at, psi, gamma) * at.promptLength),
  }));
}

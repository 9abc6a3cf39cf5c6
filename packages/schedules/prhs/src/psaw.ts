import { hide } from '@kv/core/old';
import type { View } from '@kv/core';
import { checked, share } from './decay.ts';

export interface PsawOptions {
  /** First positions, always visible. @defaultValue 4 */
  readonly sinks?: number;
  /** What is left of the window in the top layer; 1 hides nothing. @defaultValue 0.7 */
  readonly phi?: number;
  /** @defaultValue 1 */
  readonly alpha?: number;
}

/**
 * PSAW: a query at position t of a layer in the top quarter sees the sinks and positions from ⌊(1 - φ^(α (ℓ - ℓ_s) / (N
 * - ℓ_s))) t⌋ on.
 *
 * @remarks PrHS, eq. 15, in prefill and while decoding. Reads nothing; the bound never falls, so what it hides in a
 * layer could be evicted there.
 * @throws KvError if `sinks` is no whole number, `phi` outside (0, 1] or `alpha` negative.
 */
export function psaw({ sinks = 4, phi = 0.7, alpha = 1 }: PsawOptions = {}): View<'psaw'> {
  checked('psaw', sinks, ['phi', phi], ['alpha', alpha]);
  return hide({ name: 'psaw', options: { sinks, phi, alpha } }, 'both', [], ({ at }) => {
    const part = share(at, phi, alpha);
    return { sinks, lower: (t) => Math.floor(part * t) };
  });
}

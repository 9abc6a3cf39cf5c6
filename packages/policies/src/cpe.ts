import { compose, mandatory, view } from '@kv/core';
import type { Policy } from '@kv/core';
import { etf, psaw } from '@kv/schedules-prhs';
import { topK } from '@kv/selectors-top-k';
import { cis, dots } from '@kv/sharing-cis';

export interface CpeOptions {
  /** Slots that a query head retrieves, sinks and local window included. @defaultValue 128 */
  readonly budget?: number;
  /** @defaultValue 8 */
  readonly sinks?: number;
  /** @defaultValue 32 */
  readonly local?: number;
  /** Decoding steps that share. @defaultValue 8 */
  readonly block?: number;
  /** @defaultValue 0.8 */
  readonly threshold?: number;
  /** What tells whether a set is reused. @defaultValue 'queries' */
  readonly compare?: 'queries' | 'keys';
  /** PSAW's φ; 1 hides nothing. @defaultValue 0.7 */
  readonly phi?: number;
  /** ETF's ψ; 1 freezes nothing. @defaultValue 0.5 */
  readonly psi?: number;
}

/**
 * CPE: CIS inside a view, PSAW's window over it, and ETF in prefill. Evicts nothing.
 *
 * @remarks PrHS, section IV; the defaults are its GSM8K setting, 8 + 88 + 32. CIS alone is phi = 1 and psi = 1.
 */
export function cpe({
  budget = 128,
  sinks = 8,
  local = 32,
  block = 8,
  threshold = 0.8,
  compare = 'queries',
  phi = 0.7,
  psi = 0.5,
}: CpeOptions = {}): Policy {
  const shared = compose(
    dots(),
    mandatory({ sinks, recent: local }),
    topK(),
    cis({ block, threshold, compare, sinks, local }),
  );
  return compose(view(shared, { budget }), psaw({ sinks, phi }), etf({ sinks, psi }));
}

import { checkNumber, isPositiveInteger, positions, tokens, weigher } from '@kv/core';
import type { Weigher } from '@kv/core';
import { marked } from './detector.ts';
import type { Detector } from './detector.ts';
import { aging, freshness } from './freshness.ts';
import { regex } from './regex.ts';
import { vouchers } from './vouchers.ts';

/** What is left of a voucher one token further from its anchor. */
const FALLOFF = 0.8;

export interface SponsorshipOptions {
  /** Tokens after an anchor that it sponsors, L. A value longer than L is covered in part. @defaultValue 6 */
  readonly reach?: number;
  /** Sponsor budget B of an anchor. @defaultValue 15 */
  readonly strength?: number;
  /** What is left of an anchor's budget after every generated token. @defaultValue 0.9 */
  readonly decay?: number;
  /** @defaultValue regex */
  readonly anchors?: Detector;
}

/**
 * Sponsorship: anchors such as `password:` vouch for the L tokens after them, V_j = Σ B_i 0.8^(j - i) over anchors i < j <= i + L.
 *
 * @remarks Transactional Attention, eq. 2 and algorithm 1. Weights on KV rows `[G, n]`, 0 away from anchors; an anchor vouches
 * also when it is evicted itself. B_i counts from B down by `decay` a generated token, not a prefill block. Reads no attention.
 * @throws KvError if `reach` is not a positive whole number, `strength` negative or `decay` outside [0, 1].
 */
export function sponsorship({ reach = 6, strength = 15, decay = 0.9, anchors = regex }: SponsorshipOptions = {}): Weigher<'sponsorship'> {
  checkNumber('sponsorship', 'reach', reach, 'a positive whole number of tokens', isPositiveInteger);
  checkNumber('sponsorship', 'strength', strength, 'a number of at least 0', (b) => Number.isFinite(b) && b >= 0);
  checkNumber('sponsorship', 'decay', decay, 'a number from 0 to 1', (d) => d >= 0 && d <= 1);
  const options = { reach, strength: strength === 15 ? undefined : strength, decay: decay === 0.9 ? undefined : decay, anchors: anchors === regex ? undefined : anchors.name || 'own' };
  const find = marked(anchors);
  const score = weigher({ name: 'sponsorship', options }, [tokens, positions, freshness(decay)], ({ ops, at, tokens: t, positions: p, fresh }) =>
    ops.mul(ops.kernel(vouchers, { budgets: ops.from(find(t, at.length)), fresh, positions: p }, { reach, falloff: FALLOFF }), strength));
  return { ...score, atoms: [...score.atoms, ...aging(decay).atoms] };
}

import type { Weigher } from '@kv/core';
import { marked } from './detector.ts';
import type { Detector } from './detector.ts';
import { regex } from './regex.ts';
import { checkedVouching, vouching } from './vouching.ts';

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
 * Sponsorship: anchors such as `password:` vouch for the L tokens after them, V_j = Σ B_i 0.8^(j - i) over anchors i <
 * j <= i + L.
 *
 * @remarks Transactional Attention, eq. 2 and algorithm 1. Weights on KV rows `[G, n]`, 0 away from anchors; an anchor
 * vouches
 * also when it is evicted itself. B_i counts from B down by `decay` a generated token, not a prefill block. Reads no
 * attention.
 * @throws KvError if `reach` is not a positive whole number, `strength` negative or `decay` outside [0, 1].
 */
export function sponsorship({
  reach = 6,
  strength = 15,
  decay = 0.9,
  anchors = regex,
}: SponsorshipOptions = {}): Weigher<'sponsorship'> {
  checkedVouching('sponsorship', { reach, strength, decay });
  const options = {
    reach,
    strength: strength === 15 ? undefined : strength,
    decay: decay === 0.9 ? undefined : decay,
    anchors: anchors === regex ? undefined : anchors.name || 'own',
  };
  return vouching({ name: 'sponsorship', options, by: anchors }, marked(anchors), { reach, strength, decay });
}

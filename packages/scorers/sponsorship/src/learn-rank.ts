import type { Signal, Tokens, Weigher } from '@kv/core';
import { checkNumber } from '@kv/core';
import { byPosition } from './detector.ts';
import { learnedRank } from './learned.ts';
import { checkedVouching, vouching } from './vouching.ts';

/**
 * How surely each token is an anchor, 0 .. 1 by position: a learned detector's output. What it reads beside text it
 * names as `signal`.
 */
export interface Ranker<V = any> {
  (tokens: Tokens, given: V): ArrayLike<number>;
  readonly signal?: Signal<string, V>;
}
export interface LearnRankOptions {
  /** @defaultValue the detector beside the model */
  readonly rank?: Ranker;
  /** Anchors are tokens above it. @defaultValue 0.3 */
  readonly above?: number;
  /** @defaultValue 6 */
  readonly reach?: number;
  /** What a sure anchor is worth: the paper prints none. @defaultValue 1 */
  readonly strength?: number;
  /** @defaultValue 0.9 */
  readonly decay?: number;
}

/**
 * LearnRank: anchors vouch as much as they are sure, V_j = Σ f_i 0.8^(j - i) over i < j <= i + L with f_i > 0.3.
 *
 * @remarks Transactional Attention, eq. 5. Weights on KV rows `[G, n]`.
 * @throws KvError as `sponsorship` does, or if `above` is outside [0, 1].
 */
export function learnRank({
  rank = learnedRank(),
  above = 0.3,
  reach = 6,
  strength = 1,
  decay = 0.9,
}: LearnRankOptions = {}): Weigher<'learnRank'> {
  checkedVouching('learnRank', { reach, strength, decay });
  checkNumber('learnRank', 'above', above, 'a number from 0 to 1', (x) => x >= 0 && x <= 1);
  const row = byPosition((tokens, data, beside) => {
    const f = rank(tokens, beside);
    for (let i = 0; i < Math.min(data.length, f.length); i++) data[i] = f[i] > above ? f[i] : 0;
  });
  return vouching(
    {
      name: 'learnRank',
      options: {
        above,
        reach,
        strength: strength === 1 ? undefined : strength,
        decay: decay === 0.9 ? undefined : decay,
        rank: rank.name === 'learned' ? undefined : rank.name || 'own',
      },
      by: rank,
    },
    row,
    { reach, strength, decay },
  );
}

import { compose, reduceHeads, zScore } from '@kv/core';
import type { Policy } from '@kv/core';
import { triattention as score } from '@kv/scorers-triattention';
import type { TriAttentionOptions } from '@kv/scorers-triattention';
import { diversity } from '@kv/selectors-diversity';
import { topK } from '@kv/selectors-top-k';

/**
 * TriAttention by layer and KV head: scores in standard deviations of their query head, the largest of the group. Mao
 * et al. 2026, arXiv:2604.04921. Needs `pre-rope.safetensors` beside the model.
 */
export const triattention = (options?: TriAttentionOptions): Policy =>
  compose(score(options), zScore(), reduceHeads({ kind: 'max' }), topK());

export interface AlphaTriattentionOptions extends TriAttentionOptions {
  /** Weight of the redundancy penalty; 0 is `triattention`. @defaultValue 0.5 */
  readonly lambda?: number;
}

/**
 * Set-conditioned diversity on its paper's base scorer, TriAttention. The paper shares one score among all heads of the
 * model; ours is by layer and KV head.
 */
export const alphaTriattention = ({ lambda = 0.5, ...options }: AlphaTriattentionOptions = {}): Policy =>
  compose(score(options), zScore(), reduceHeads({ kind: 'max' }), diversity({ lambda }));

import { compose, mandatory, weighted, zScore } from '@kv/core';
import type { Policy } from '@kv/core';
import { byEviction, leverage, noncausal } from '@kv/scorers-compactor';
import { topK } from '@kv/selectors-top-k';

export interface CompactorOptions {
  /** Positions in a chunk of the non-causal attention. @defaultValue 256 */
  readonly chunk?: number;
  /** Queries that a layer keeps: the longest prompt. @defaultValue 4096 */
  readonly window?: number;
  /** First positions that stay. @defaultValue 8 */
  readonly sinks?: number;
  /** Last positions that stay. @defaultValue 4 */
  readonly recent?: number;
}

/**
 * Compactor: leverage of the keys, times the share that goes, plus non-causal attention, each standardised over the
 * layer. Chari and Van Durme 2025, arXiv:2507.08143.
 */
export const compactor = ({ chunk = 256, window = 4096, sinks = 8, recent = 4 }: CompactorOptions = {}): Policy =>
  compose(
    weighted(
      [1, compose(leverage(), zScore({ over: 'layer' }), byEviction())],
      [1, compose(noncausal({ chunk, window }), zScore({ over: 'layer' }))],
    ),
    mandatory({ sinks, recent }),
    topK(),
  );

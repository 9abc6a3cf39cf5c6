import { part, positions, tokens, weightScorer } from '@kv/core';
import { anchorRow, beside } from './detector.ts';
import { regex } from './regex.ts';

/** Anchor status, S = 1 on anchors and 0 elsewhere. Transactional Attention, eq. 1. Weights on KV rows `[G, n]`. */
export const structure = weightScorer(
  'structure',
  {
    source: 'Basu 2026, arXiv:2604.11288, eq. 1',
    says: '1 on anchors, else 0.',
    options: { anchors: part(regex(), 'What finds anchors.') },
    needs: ({ anchors }) => [tokens, positions, ...beside(anchors)],
  },
  (ctx, o) => ctx.ops.take(ctx.ops.from(anchorRow(ctx, o)), ctx.positions),
);

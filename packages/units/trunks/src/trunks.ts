import { count, number, oneOf, positions, tokens, unit, whole } from '@kv/core';
import { orWord, placeInUnit } from '@kv/core/shared';
import type { UnitCut, StepContext, Tensor } from '@kv/core';
import { chunk, coAttention } from './co-attention.ts';
import { byPosition, firstEdges, parts, memoise, sentenceSpans, stretches, trunkSpans } from './sentence-spans.ts';
import type { Span } from './sentence-spans.ts';

/** Generated tokens that are cut together: CrystalCache's breath interval. */
const RUN = 64;
/** Tokens of a unit that its score is the mean of. */
const TOP = 3;

/** Returns units from spans of positions, each scored by the mean of its `most` highest scores. */
function cut(
  { ops, at, scores, positions: p }: StepContext & { readonly scores: Tensor; readonly positions: Tensor },
  spans: readonly Span[],
  most = TOP,
): UnitCut {
  const table = byPosition(spans, at.length);
  const units = Math.max(1, spans.length);
  const of = ops.take(ops.from({ data: table, shape: [1, at.length] }, 'u32'), p); // [G, n]
  const top = ops.less(ops.kernel(placeInUnit, { scores, unitOf: of }), most); // [rows, n]
  const sum = ops.groupSlots('sum', ops.mul(scores, top), of, units);
  const size = ops.groupSlots('sum', top, of, units);
  return { units: { of, count: units, byPosition: table }, scores: ops.div(sum, ops.max(size, 1)) };
}

/**
 * Sentences as units: a token whose text ends in . ! ? or holds a newline ends its sentence.
 *
 * @remarks CrystalCache, section 3.3, step 1, with the score of eq. 23: the mean of the unit's highest token scores,
 * three or `top` of them. Unit scores `[rows, units]`.
 */
export const sentences = unit(
  'sentences',
  {
    source: 'CrystalCache, section 3.3',
    says: 'Sentences that stay or go together.',
    options: {
      maxSize: whole(0, 'tokens', 'Most tokens of a unit: longer sentences are cut into equal parts; 0 for no limit.'),
      top: whole(TOP, 'tokens', 'Best tokens of a unit whose mean is its score; 0 for all of them.'),
    },
    needs: [tokens, positions],
  },
  (ctx, { maxSize, top }) => {
    const { length, promptLength, step } = ctx.at;
    const spans = memoise(ctx.tokens, 'sentences', [length, promptLength, step, maxSize], () =>
      parts(
        stretches(ctx.at, RUN).flatMap((part) => sentenceSpans(ctx.tokens, part)),
        maxSize || Infinity,
      ),
    );
    return cut(ctx, spans, top || length);
  },
);

/**
 * Trunks: sentences, merged where the first layer's co-attention links them, at most 32 tokens each.
 *
 * @remarks CrystalCache, section 3.3, eq. 16 to 19, and eq. 23 for the score: the mean of the three highest token
 * scores. The adaptive threshold is proposed in the paper, which never ran it. Units are cut by position, so heads that
 * hold different tokens cut their own.
 */
export const trunks = unit(
  'trunks',
  {
    source: 'CrystalCache, section 3.3',
    says: 'Sentences, merged where co-attention links them.',
    options: {
      maxSize: count(32, 'tokens', 'Most tokens of a trunk; 1 makes every token a unit.'),
      merge: orWord(
        number(
          0.3,
          "Co-attention strength above which the next sentence joins; 'adaptive' takes the median between neighbours.",
          { least: 0 },
        ),
        'adaptive',
      ),
      edges: oneOf(
        ['forward', 'either'],
        'forward',
        'Edges that link two sentences: from the earlier to the later one, as eq. 17 prints it, or in either direction.',
      ),
      run: count(RUN, 'tokens', 'Generated tokens that are cut together, and stay so: the breath interval.'),
      chunk,
    },
    needs: ({ chunk: size }) => [tokens, coAttention(size), positions],
  },
  (ctx, { maxSize, merge, edges, run }) => {
    const first = firstEdges(ctx.coAttention, ctx.at.length);
    const spans = stretches(ctx.at, run).flatMap((part) =>
      trunkSpans(ctx.tokens, part, ctx.coAttention, first, { maxSize, merge, edges }),
    );
    return cut(ctx, spans);
  },
);

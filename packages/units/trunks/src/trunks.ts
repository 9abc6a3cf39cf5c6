import { checkNumber, isCount, isPositiveInteger, KvError, placeInUnit, positions, tokens } from '@kv/core';
import { unit } from '@kv/core/old';
import type { Tensor, Unit, Units } from '@kv/core';
import type { Common } from '@kv/core/old';
import { coAttention } from './co-attention.ts';
import { byPosition, firstEdges, parts, sentenceSpans, stretches, trunkSpans } from './cut.ts';
import type { Span } from './cut.ts';

/** Generated tokens that are cut together: CrystalCache's breath interval. */
const RUN = 64;
/** Tokens of a unit that make its score. */
const TOP = 3;

/** Units from spans of positions, each scored by the mean of its three highest scores. */
function cut(
  { ops, at, scores, positions: p }: Common & { readonly scores: Tensor; readonly positions: Tensor },
  spans: readonly Span[],
): { readonly units: Units; readonly scores: Tensor } {
  const table = byPosition(spans, at.length),
    count = Math.max(1, spans.length);
  const of = ops.take(ops.from({ data: table, shape: [1, at.length] }, 'u32'), p); // [G, n]
  const top = ops.less(ops.kernel(placeInUnit, { scores, unitOf: of }), TOP); // [rows, n]
  const sum = ops.groupSlots('sum', ops.mul(scores, top), of, count),
    size = ops.groupSlots('sum', top, of, count);
  return { units: { of, count, byPosition: table }, scores: ops.div(sum, ops.max(size, 1)) };
}

/**
 * Sentences as units: a token whose text ends in . ! ? or holds a newline ends the sentence it belongs to.
 *
 * @remarks CrystalCache, section 3.3, step 1, with the score of eq. 23: the mean of the unit's three highest token
 * scores. Unit scores `[rows, units]`.
 * @throws KvError if `maxSize` is not a whole number.
 */
export function sentences({
  maxSize = 0,
}: {
  /**
   * Most tokens of a unit: longer sentences are cut into equal parts. @defaultValue 0, no limit
   */
  readonly maxSize?: number;
} = {}): Unit<'sentences'> {
  checkNumber('sentences', 'maxSize', maxSize, 'a whole number of tokens', isCount);
  return unit({ name: 'sentences', options: { maxSize: maxSize || undefined } }, [tokens, positions], (ctx) =>
    cut(
      ctx,
      parts(
        stretches(ctx.at, RUN).flatMap((part) => sentenceSpans(ctx.tokens, part)),
        maxSize || Infinity,
      ),
    ),
  );
}

export interface TrunkOptions {
  /** Most tokens of a trunk, T_max; 1 makes every token a unit. @defaultValue 32 */
  readonly maxSize?: number;
  /**
   * Co-attention strength above which the next sentence joins; 'adaptive' takes the median between neighbouring
   * sentences. @defaultValue 0.3
   */
  readonly merge?: number | 'adaptive';
  /** Generated tokens that are cut together, and stay so: the breath interval. @defaultValue 64 */
  readonly run?: number;
}

/**
 * Trunks: sentences, merged where the first layer's co-attention links them, at most 32 tokens each.
 *
 * @remarks CrystalCache, section 3.3, eq. 16 to 19, and eq. 23 for the score: the mean of the three highest token
 * scores. Edges count in either direction.
 * The adaptive threshold is what the paper proposes and never ran. Cut by position, so heads with other tokens cut
 * their own.
 * @throws KvError if `maxSize` or `run` is not a positive whole number or `merge` no number of at least 0.
 */
export function trunks({ maxSize = 32, merge = 0.3, run = RUN }: TrunkOptions = {}): Unit<'trunks'> {
  checkNumber('trunks', 'maxSize', maxSize, 'a positive whole number of tokens', isPositiveInteger);
  checkNumber('trunks', 'run', run, 'a positive whole number of tokens', isPositiveInteger);
  if (typeof merge === 'string' && merge !== 'adaptive')
    throw new KvError('trunks', `merge must be a number or 'adaptive', got '${String(merge)}'`);
  if (typeof merge === 'number')
    checkNumber('trunks', 'merge', merge, "a number of at least 0 or 'adaptive'", (x) => x >= 0);
  return unit(
    { name: 'trunks', options: { maxSize, merge, run: run === RUN ? undefined : run } },
    [tokens, coAttention, positions],
    (ctx) => {
      const first = firstEdges(ctx.coAttention, ctx.at.length);
      return cut(
        ctx,
        stretches(ctx.at, run).flatMap((part) =>
          trunkSpans(ctx.tokens, part, ctx.coAttention, first, { maxSize, merge }),
        ),
      );
    },
  );
}

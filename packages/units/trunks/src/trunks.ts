import { checkNumber, isCount, isPositiveInteger, KvError, positions, tokens, unit } from '@kv/core';
import type { Common, Kernel, Tensor, Unit, Units } from '@kv/core';
import { coAttention } from './co-attention.ts';
import { byPosition, firstEdges, parts, sentenceSpans, stretches, trunkSpans } from './cut.ts';
import type { Span } from './cut.ts';

/** Generated tokens that are cut together: CrystalCache's breath interval. */
const RUN = 64;
/** Tokens of a unit that make its score. */
const TOP = 3;

/** Units from spans of positions, each scored by the mean of its three highest scores. */
function cut({ ops, at, scores, positions: p }: Common & { readonly scores: Tensor; readonly positions: Tensor }, spans: readonly Span[]): { readonly units: Units; readonly scores: Tensor } {
  const table = byPosition(spans, at.length), count = Math.max(1, spans.length);
  const of = ops.take(ops.from({ data: table, shape: [1, at.length] }, 'u32'), p); // [G, n]
  const top = ops.less(ops.kernel(placeInUnit, { scores, unitOf: of }), TOP); // [rows, n]
  const sum = ops.groupSlots('sum', ops.mul(scores, top), of, count), size = ops.groupSlots('sum', top, of, count);
  return { units: { of, count, byPosition: table }, scores: ops.div(sum, ops.max(size, 1)) };
}

/**
 * Sentences as units: a token whose text ends in . ! ? or holds a newline ends the sentence it belongs to.
 *
 * @remarks CrystalCache, section 3.3, step 1, with the score of eq. 23: the mean of the unit's three highest token scores. Unit scores `[rows, units]`.
 * @throws KvError if `maxSize` is not a whole number.
 */
export function sentences({ maxSize = 0 }: { /** Most tokens of a unit: longer sentences are cut into equal parts. @defaultValue 0, no limit */ readonly maxSize?: number } = {}): Unit<'sentences'> {
  checkNumber('sentences', 'maxSize', maxSize, 'a whole number of tokens', isCount);
  return unit({ name: 'sentences', options: { maxSize: maxSize || undefined } }, [tokens, positions], (ctx) => cut(ctx, parts(stretches(ctx.at, RUN).flatMap((part) => sentenceSpans(ctx.tokens, part)), maxSize || Infinity)));
}

export interface TrunkOptions {
  /** Most tokens of a trunk, T_max; 1 makes every token a unit. @defaultValue 32 */
  readonly maxSize?: number;
  /** Co-attention strength above which the next sentence joins; 'adaptive' takes the median between neighbouring sentences. @defaultValue 0.3 */
  readonly merge?: number | 'adaptive';
  /** Generated tokens that are cut together, and stay so: the breath interval. @defaultValue 64 */
  readonly run?: number;
}

/**
 * Trunks: sentences, merged where the first layer's co-attention links them, at most 32 tokens each.
 *
 * @remarks CrystalCache, section 3.3, eq. 16 to 19, and eq. 23 for the score: the mean of the three highest token scores. Edges count in either direction.
 * The adaptive threshold is what the paper proposes and never ran. Cut by position, so heads with other tokens cut their own.
 * @throws KvError if `maxSize` or `run` is not a positive whole number or `merge` no number of at least 0.
 */
export function trunks({ maxSize = 32, merge = 0.3, run = RUN }: TrunkOptions = {}): Unit<'trunks'> {
  checkNumber('trunks', 'maxSize', maxSize, 'a positive whole number of tokens', isPositiveInteger);
  checkNumber('trunks', 'run', run, 'a positive whole number of tokens', isPositiveInteger);
  if (typeof merge === 'string' && merge !== 'adaptive') throw new KvError('trunks', `merge must be a number or 'adaptive', got '${String(merge)}'`);
  if (typeof merge === 'number') checkNumber('trunks', 'merge', merge, "a number of at least 0 or 'adaptive'", (x) => x >= 0);
  return unit({ name: 'trunks', options: { maxSize, merge, run: run === RUN ? undefined : run } }, [tokens, coAttention, positions], (ctx) => {
    const first = firstEdges(ctx.coAttention, ctx.at.length);
    return cut(ctx, stretches(ctx.at, run).flatMap((part) => trunkSpans(ctx.tokens, part, ctx.coAttention, first, { maxSize, merge })));
  });
}

/** Place of every slot among the slots of its unit, 0 = highest score, ties to the lower slot. Units are contiguous: O(size) a slot. */
export const placeInUnit: Kernel = {
  id: 'place-in-unit', inputs: { scores: 'f32', unitOf: 'u32' }, params: {}, ragged: 'scores', per: 'element',
  output: { dtype: 'f32', shape: ({ scores }) => scores! },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = scores_shape.y;
  let row = index / n;
  let here = index % n;
  let first = row / (scores_shape.x / unitOf_shape.x) * n;
  var place = 0u;
  if (here < scores_lengths[row]) {
    for (var i = here; i > 0u && unitOf[first + i - 1u] == unitOf[first + here]; i--) { if (scores[row * n + i - 1u] >= scores[index]) { place++; } }
    for (var i = here + 1u; i < scores_lengths[row] && unitOf[first + i] == unitOf[first + here]; i++) { if (scores[row * n + i] > scores[index]) { place++; } }
  }
  output[index] = f32(place);
}`,
  ref({ scores, unitOf }, _params, out, lengths) {
    const [rows = 0, n = 0] = scores!.shape, groups = unitOf!.shape[0]!, s = scores!.data;
    for (let row = 0; row < rows; row++) for (let here = 0; here < lengths[row]!; here++) {
      const base = row * n, unit = (i: number): number => unitOf!.data[Math.floor((row * groups) / rows) * n + i]!;
      let place = 0;
      for (let i = here - 1; i >= 0 && unit(i) === unit(here); i--) if (s[base + i]! >= s[base + here]!) place++;
      for (let i = here + 1; i < lengths[row]! && unit(i) === unit(here); i++) if (s[base + i]! > s[base + here]!) place++;
      out[base + here] = place;
    }
  },
};

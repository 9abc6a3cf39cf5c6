import { besideModel, checkNumber, isPositiveInteger, KvError } from '@kv/core';
import { scoreAllocator } from '@kv/core/old';
import type { ScoreAllocator } from '@kv/core';
import { budgetsOf } from './layer-budgets.ts';
import { numbersOf, shown } from './numbers.ts';
import type { Numbers } from './numbers.ts';

export interface DuoAttentionOptions {
  /** Share of the model's KV heads that stream. @defaultValue 0.5 */
  readonly share?: number;
  /** Slots of a head that streams: its sinks and its recent ones. @defaultValue 384 */
  readonly slots?: number;
  /**
   * How much of the whole context each KV head needs, from 0 to 1. @defaultValue '', those of
   * `full_attention_heads.tsv` beside the model
   */
  readonly scores?: Numbers;
}

/** Name of the file beside the model: a line a layer, a number a KV head. */
export const HEAD_SCORES_FILE = 'full_attention_heads.tsv';
/** Where the heads of a layer stand among all of the model, 0 the lowest score. */
interface Heads {
  readonly places: readonly number[];
  readonly of: number;
  readonly layers: number;
}

function ranked(scores: readonly (readonly number[])[]): readonly Heads[] {
  const all = scores
    .flatMap((row, l) => row.map((score, g) => ({ l, g, score: Math.min(1, Math.max(0, score)) })))
    .sort((a, b) => a.score - b.score || a.l - b.l || a.g - b.g);
  const rows = scores.map((row) => row.map(() => 0));
  all.forEach(({ l, g }, place) => {
    rows[l][g] = place;
  });
  return rows.map((places) => ({ places, of: all.length, layers: rows.length }));
}
const headScores = besideModel({
  as: 'headScores',
  piece: 'duoAttention',
  file: HEAD_SCORES_FILE,
  of: 'head scores',
  make: 'the file of that name from the DuoAttention repository, or scores=...',
  read: (file): readonly Heads[] => {
    const lines = new TextDecoder()
      .decode(file)
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '')
      .map((line) => line.split(/\s+/).map(Number));
    if (lines.length === 0 || lines.some((line) => line.length !== lines[0].length || !line.every(Number.isFinite)))
      throw new KvError(HEAD_SCORES_FILE, 'expected lines of as many numbers each, between tabs');
    return ranked(lines);
  },
});

/**
 * DuoAttention: the KV heads that need the whole context least keep `slots` slots, the others everything.
 *
 * @remarks Xiao et al. 2024, arXiv:2410.10819. The lowest round(share · heads) scores of the whole model stream; over
 * `streaming(sinks)` they keep sinks and recents, over another scorer its best. Of equal scores
 * those of the first layer and head. Replaces the budgets that were asked for, if any were; forced slots count. Without
 * `scores` it reads the file that DuoAttention publishes, beside the model.
 * @throws KvError if `share` is not a share, `slots` not a positive whole number, or the scores are of other layers or
 * heads.
 */
export function duoAttention({
  share = 0.5,
  slots = 384,
  scores = '',
}: DuoAttentionOptions = {}): ScoreAllocator<'duoAttention'> {
  checkNumber('duoAttention', 'share', share, 'a share from 0 to 1', (x) => x >= 0 && x <= 1);
  checkNumber('duoAttention', 'slots', slots, 'a positive whole number of slots', isPositiveInteger);
  const own = scores === '' ? undefined : numbersOf('duoAttention', 'scores', scores),
    rows = own && ranked(own);
  return scoreAllocator(
    { name: 'duoAttention', options: { share, slots, scores: own && shown(own) }, sizes: true },
    rows ? [] : [headScores],
    (ctx) => {
      const { at } = ctx,
        heads = rows ? rows[at.layer] : (ctx as typeof ctx & { readonly headScores: Heads }).headScores;
      if (!heads || heads.places.length !== at.kvHeads || heads.layers !== at.layers)
        throw new KvError(
          'duoAttention',
          `expected scores of ${at.layers} layers with ${at.kvHeads} KV heads, got ${heads ? `${heads.layers} with ${heads.places.length}` : rows!.length}`,
        );
      return {
        budgets: budgetsOf(
          ctx,
          heads.places.map((place) => (place < Math.round(share * heads.of) ? slots : Infinity)),
        ),
      };
    },
  );
}

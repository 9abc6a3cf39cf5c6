import { count, KvError, maybe, scoreAllocator, share, sidecar } from '@kv/core';
import { budgetsWithinBounds } from './budgets-within-bounds.ts';
import { numbers, rowsOf } from './numbers.ts';

/** Name of the file next to the model: a line for each layer, a number for each KV head. */
export const HEAD_SCORES_FILE = 'full_attention_heads.tsv';
/** Ranks of a layer's heads among all heads of the model, 0 for the lowest score. */
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
const headScores = sidecar({
  as: 'headScores',
  piece: 'duoAttention',
  file: HEAD_SCORES_FILE,
  of: 'head scores',
  make: 'the file of that name from the DuoAttention repository, node tools/calibrate.mjs MODEL, or scores=...',
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
 * @remarks Xiao et al. 2024, arXiv:2410.10819. The round(share · heads) heads with the lowest scores of the whole model
 * stream; over `streaming(sinks)` they keep sinks and recents, over another scorer its best slots. Of equal scores
 * those of the first layer and head stream. Replaces any requested budgets; forced slots count. Without `scores` it
 * reads a file next to the model: the one that DuoAttention publishes, or one of `headScoresFile`.
 * @throws KvError in an event where the scores have other layers or heads than the model.
 */
export const duoAttention = scoreAllocator(
  'duoAttention',
  {
    source: 'Xiao et al. 2024, arXiv:2410.10819',
    says: 'Heads that need the whole context least keep a few slots, the others everything.',
    options: {
      share: share(0.5, "Share of the model's KV heads that stream."),
      slots: count(384, 'slots', 'Slots of a head that streams: its sinks and its recent ones.'),
      scores: maybe(
        numbers('', `How much of the whole context each KV head needs, 0 to 1; by default by ${HEAD_SCORES_FILE}.`),
      ),
    },
    needs: ({ scores }) => (scores === undefined ? [headScores] : []),
    choosesBudget: true,
  },
  (ctx, { share: streaming, slots, scores }) => {
    const { layer, layers, kvHeads } = ctx.at;
    const model = scores === undefined ? undefined : ranked(rowsOf(scores));
    const heads = model ? model[layer] : ctx.headScores;
    if (heads?.places.length !== kvHeads || heads.layers !== layers)
      throw new KvError(
        'duoAttention',
        `expected scores of ${layers} layers with ${kvHeads} KV heads, got ${heads ? `${heads.layers} with ${heads.places.length}` : (model?.length ?? 'none')}`,
      );
    const few = Math.round(streaming * heads.of);
    return {
      budgets: budgetsWithinBounds(
        ctx,
        heads.places.map((place) => (place < few ? slots : Infinity)),
      ),
    };
  },
);

import { count, positions, share, state, whole, wrapSelect } from '@kv/core';
import type { LayerContext, Ops, Tensor } from '@kv/core';
import { loopBytes } from './hshare-loop.ts';
import { leaders, overlaps, rowsOfLeaders } from './heads.ts';
import { layerOverlaps, listKernel, ofLayer } from './layers.ts';

const sets = state('hshare.sets', { kind: 'position', rows: 'query' });
const has = state('hshare.has', { kind: 'sequence', rows: 'query' });
const overlap = state('hshare.overlap', { kind: 'unit', rows: 'query' });
/** Index of the leader minus own index; 0 shares with none. Heads `[H, 1]`, layers `[1, L]`. */
const uses = state('hshare.uses', { kind: 'sequence', rows: 'query' });
const layerUses = state('hshare.layers.uses', { kind: 'unit', rows: 'model' });
const lists = state('hshare.layers.sets', { kind: 'unit', rows: 'model' });
const layerOverlap = state('hshare.layers.overlap', { kind: 'unit', rows: 'model' });
/** Retrievals so far, f32 `[H, 1]`: divided by steps, layers and heads this is the retrieval ratio. */
const retrievals = state('hshare.retrievals', { kind: 'sequence', rows: 'query' });

/**
 * HShare: inside a view, a retrieved set serves the next tokens, and heads and layers whose sets overlap most share one
 * set; sinks and the local window are each query's own.
 *
 * @remarks HShare, ICLR 2025: sharing over queries, layers and heads, in this order of precedence, greedily by overlap:
 * of a pair j < i, i uses j, and so do those that used i. The authors measure overlap over the prompt's queries, which
 * a view does not see: here it is measured over the first generated tokens of a sequence. At most 128 heads and 128
 * layers share. Rows that share run neither scorer nor selector where these honour `active`. Layers store their sets as
 * lists of `budget` numbers for each query head.
 */
export const sharedSets = wrapSelect(
  'sharedSets',
  {
    source: 'HShare, ICLR 2025',
    says: 'A retrieved set serves the next tokens, and heads and layers whose sets overlap.',
    options: {
      query: count(
        2,
        'tokens',
        "Tokens that share one retrieval: renewed where the cache's length is a multiple of it.",
      ),
      heads: share(0.5, "Share of the query heads that use another head's set."),
      layers: share(0.5, "Share of the layers that use another layer's sets."),
      measure: whole(
        8,
        'tokens',
        'Generated tokens over which overlap is measured; until then every head retrieves at every token.',
      ),
      sinks: whole(8, 'positions', 'First positions, always visible.'),
      local: whole(32, 'slots', 'Last slots, always visible; the window moves with the query.'),
    },
    needs: [positions, sets, has, overlap, uses, retrievals, layerUses, lists, layerOverlap],
    loop: ({ query, heads, layers, measure, sinks, local }) => ({
      bytes: loopBytes,
      words: [query, Number(layers > 0), sinks, local],
      states: [
        ...[sets, has, uses, retrievals].map((state) => ({ state })),
        ...(layers > 0
          ? [
              { state: layerUses, columns: (at: LayerContext) => at.layers },
              { state: lists, columns: (at: LayerContext) => at.layers * at.queryHeads * widthOf(at) },
            ]
          : []),
      ],
      rests: ({ step }) => (heads > 0 || layers > 0) && step <= measure + 1, // until leaders are settled
    }),
  },
  (ctx, { query, heads, layers, measure, sinks, local }) => {
    const { ops, at, positions: p, inner } = ctx;
    const { queryHeads: H, layers: L, layer } = at;
    const width = widthOf(at);
    const before = ctx['hshare.sets'];
    const place = { layer, width };
    const measuring = (heads > 0 || layers > 0) && at.step <= measure;
    const settling = at.step === measure + 1;
    const renews = measuring || at.length % query === 0;
    const follows = layers > 0 && renews && !measuring && layer > 0;
    const others = (): Tensor => sized(ops, ctx['hshare.layers.sets'], L * H * width);
    const common = (): Tensor => sized(ops, ctx['hshare.layers.overlap'], L * L);
    /** Leaders from the overlap `[m, m]`, as offsets `[m, 1]`. */
    const offsets = (shared: Tensor, part: number): Tensor => {
      const [m] = shared.shape;
      return ops.sub(ops.kernel(leaders, { overlap: shared }, { share: Math.floor(part * m) }), column(ops, m));
    };
    const own = column(ops, H);
    const shares = settling && heads > 0 ? offsets(ctx['hshare.overlap'], heads) : ctx['hshare.uses']; // [H, 1]
    const offset = follows
      ? ops.take(sized(ops, ctx['hshare.layers.uses'], L), ops.from({ data: Uint32Array.of(layer), shape: [1, 1] }))
      : ops.from({ data: [0], shape: [1, 1] });
    const due = renews ? ops.fill(own, 1) : ops.less(ctx['hshare.has'], 1);
    const active = ops.mul(due, ops.mul(ops.zip('equal', shares, 0), ops.zip('equal', offset, 0)));
    const { kept, scores } = inner(active);
    const none = ops.fill(ops.broadcast(scores, H), 0); // [H, n]
    const fixed = ops.max(ops.add(none, ops.less(p, sinks)), ops.lastSlots(none, local));
    const got = ops.mark(kept, none);
    const mine = ops.groupSlots('sum', ops.mul(got, ops.not(fixed)), p, at.length); // [H, N]
    const chosen = ops.kernel(rowsOfLeaders, { sets: ops.where(active, mine, before), leader: ops.add(own, shares) });
    const theirs = follows ? ops.kernel(ofLayer, { lists: others(), offset, sets: chosen }, place) : chosen;
    const held = ops.where(due, theirs, before);
    const seen = ops.where(active, got, ops.max(fixed, ops.take(held, p)));
    const size = ops.sum(held);
    return {
      kept: ops.select(seen, ops.sum(seen)),
      state: {
        'hshare.sets': held,
        'hshare.has': ops.max(ctx['hshare.has'], due),
        'hshare.uses': shares,
        'hshare.retrievals': ops.add(ctx['hshare.retrievals'], active),
        ...(measuring &&
          heads > 0 && { 'hshare.overlap': ops.kernel(overlaps, { sets: mine, before: ctx['hshare.overlap'] }) }),
        ...(measuring &&
          layers > 0 &&
          layer > 0 && {
            'hshare.layers.overlap': ops.kernel(
              layerOverlaps,
              { sets: mine, lists: others(), before: common() },
              { ...place, layers: L },
            ),
          }),
        ...(settling &&
          layers > 0 &&
          layer === 0 && {
            'hshare.layers.uses': ops.reshape(offsets(ops.reshape(common(), [L, L]), layers), [1, L]),
          }),
        ...(renews &&
          layers > 0 &&
          layer + 1 < L && {
            'hshare.layers.sets': ops.kernel(
              listKernel,
              { list: ops.select(held, size), count: size, before: others() },
              place,
            ),
          }),
      },
    };
  },
);

/** Entries of a list: a set is never longer than the text. */
const widthOf = ({ budget, length }: LayerContext): number => Math.min(budget, length);
const column = (ops: Ops, length: number): Tensor =>
  ops.from({ data: Float32Array.from({ length }, (_, i) => i), shape: [length, 1] });
/** Zeros where no value of this width was written yet. */
const sized = (ops: Ops, x: Tensor, columns: number): Tensor =>
  x.shape[1] === columns ? x : ops.from({ data: new Float32Array(columns), shape: [1, columns] });

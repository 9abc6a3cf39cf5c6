import { count, positions, share, state, whole, wrapSelect } from '@kv/core';
import type { LayerContext, Ops, Tensor } from '@kv/core';
import { loopBytes } from './hshare-loop.ts';
import { leaders, overlaps, rowsOfLeaders } from './heads.ts';
import { layerOverlaps, listKernel, ofLayer } from './layers.ts';

const sets = state('hshare.sets', { kind: 'position', rows: 'query' });
/** Tokens there were when it last acted, f32 `[H, 1]`: one fewer than now, unless others came between. */
const last = state('hshare.last', { kind: 'sequence', rows: 'query' });
/** Tokens over which overlap was measured, f32 `[H, 1]`; one more once leaders are settled. */
const measured = state('hshare.measured', { kind: 'sequence', rows: 'query' });
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
 * a view does not see: here it is measured over the first tokens that it acts on. After tokens that it does not act on,
 * such as a prompt's, sets are chosen again. At most 128 heads and 128
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
        "Tokens that share one retrieval: renewed where the cache's length is a multiple of it, and after a prompt.",
      ),
      heads: share(0.5, "Share of the query heads that use another head's set."),
      layers: share(0.5, "Share of the layers that use another layer's sets."),
      measure: whole(
        8,
        'tokens',
        'First tokens that it acts on, over which overlap is measured; until then every head retrieves at every token.',
      ),
      sinks: whole(8, 'positions', 'First positions, always visible.'),
      local: whole(32, 'slots', 'Last slots, always visible; the window moves with the query.'),
    },
    needs: [positions, sets, last, measured, overlap, uses, retrievals, layerUses, lists, layerOverlap],
    loop: ({ query, heads, layers, measure, sinks, local }) => ({
      bytes: loopBytes,
      words: [query, Number(layers > 0), sinks, local],
      states: [
        ...[sets, last, uses, retrievals].map((state) => ({ state })),
        ...(layers > 0
          ? [
              { state: layerUses, columns: (at: LayerContext) => at.layers },
              { state: lists, columns: (at: LayerContext) => at.layers * at.queryHeads * widthOf(at) },
            ]
          : []),
      ],
      rests: (_, first) => (heads > 0 || layers > 0) && first(measured) <= measure, // until leaders are settled
    }),
  },
  (ctx, { query, heads, layers, measure, sinks, local }) => {
    const { ops, at, positions: p, inner } = ctx;
    const { queryHeads: H, layers: L, layer } = at;
    const width = widthOf(at);
    const place = { layer, width };
    const own = column(ops, H);
    const tokens = ctx['hshare.measured'];
    const shares = heads > 0 || layers > 0;
    // one number for every head, the same
    const measuring = shares ? ops.less(tokens, measure) : ops.fill(own, 0);
    const settling = ops.zip('equal', tokens, measure);
    const again = ops.not(ops.zip('equal', ctx['hshare.last'], at.length - 1));
    const due = at.length % query === 0 ? ops.fill(own, 1) : ops.max(measuring, again);
    const follows = layers > 0 && layer > 0;
    const others = (): Tensor => sized(ops, ctx['hshare.layers.sets'], L * H * width);
    const common = (): Tensor => sized(ops, ctx['hshare.layers.overlap'], L * L);
    /** Leaders from the overlap `[m, m]` once it is measured, until then those before: offsets `[m, 1]`. */
    const settled = (shared: Tensor, before: Tensor, part: number): Tensor =>
      ops.kernel(leaders, { overlap: shared, before, wanted: settling }, { share: Math.floor(part * shared.shape[0]) });
    const before = ops.mul(ctx['hshare.uses'], ops.not(measuring));
    const used = heads > 0 ? settled(ctx['hshare.overlap'], before, heads) : before; // [H, 1]
    const layerOffsets = (): Tensor => sized(ops, ctx['hshare.layers.uses'], L);
    const offset = follows // [H, 1]
      ? ops.mul(
          ops.mul(due, ops.not(measuring)),
          ops.take(layerOffsets(), ops.from({ data: Uint32Array.of(layer), shape: [1, 1] })),
        )
      : ops.fill(own, 0);
    const active = ops.mul(due, ops.mul(ops.zip('equal', used, 0), ops.zip('equal', offset, 0)));
    const { kept, scores } = inner(active);
    const none = ops.fill(ops.broadcast(scores, H), 0); // [H, n]
    const fixed = ops.max(ops.add(none, ops.less(p, sinks)), ops.lastSlots(none, local));
    const got = ops.mark(kept, none);
    const mine = ops.groupSlots('sum', ops.mul(got, ops.not(fixed)), p, at.length); // [H, N]
    const chosen = ops.kernel(rowsOfLeaders, {
      sets: ops.where(active, mine, ctx['hshare.sets']),
      leader: ops.add(own, used),
    });
    const theirs = follows ? ops.kernel(ofLayer, { lists: others(), offset, sets: chosen }, place) : chosen;
    const held = ops.where(due, theirs, ctx['hshare.sets']);
    const seen = ops.where(active, got, ops.max(fixed, ops.take(held, p)));
    const size = ops.sum(held);
    return {
      kept: ops.select(seen, ops.sum(seen)),
      state: {
        'hshare.sets': held,
        'hshare.last': ops.fill(own, at.length),
        ...(shares && { 'hshare.measured': ops.min(ops.add(tokens, 1), measure + 1) }),
        'hshare.uses': used,
        'hshare.retrievals': ops.add(ctx['hshare.retrievals'], active),
        ...(heads > 0 && {
          'hshare.overlap': ops.kernel(overlaps, { sets: mine, before: ctx['hshare.overlap'], wanted: measuring }),
        }),
        ...(follows && {
          'hshare.layers.overlap': ops.kernel(
            layerOverlaps,
            { sets: mine, lists: others(), before: common(), wanted: measuring },
            { ...place, layers: L },
          ),
        }),
        ...(layers > 0 &&
          layer === 0 && {
            'hshare.layers.uses': ops.reshape(
              settled(ops.reshape(common(), [L, L]), ops.reshape(layerOffsets(), [L, 1]), layers),
              [1, L],
            ),
          }),
        ...(layers > 0 &&
          layer + 1 < L && {
            'hshare.layers.sets': ops.kernel(
              listKernel,
              // while every token makes lists longer, old ones do not fit
              {
                list: ops.select(held, size),
                count: size,
                before: others(),
                wanted: at.length > at.budget ? due : ops.fill(own, 1),
              },
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

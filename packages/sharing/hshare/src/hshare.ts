import { checkNumber, isCount, isPositiveInteger, positions, state } from '@kv/core';
import { wrapSelect } from '@kv/core/old';
import type { Hooked, Ops, State, Tensor } from '@kv/core';
import { leaders, overlaps, rowsOfLeaders } from './heads.ts';
import { layerOverlaps, listed, ofLayer } from './layers.ts';

export interface HShareOptions {
  /**
   * Tokens that share one retrieval: the sets are chosen anew where the cache's length is a multiple of it.
   * @defaultValue 2
   */
  readonly query?: number;
  /** Share of the query heads that use another head's set. @defaultValue 0.5 */
  readonly heads?: number;
  /** Share of the layers that use another layer's sets. @defaultValue 0.5 */
  readonly layers?: number;
  /**
   * Generated tokens over which the overlap of heads and layers is measured; until then every head retrieves at every
   * token. @defaultValue 8
   */
  readonly measure?: number;
  /** First positions, always visible. @defaultValue 8 */
  readonly sinks?: number;
  /** Last slots, always visible; the window moves with the query. @defaultValue 32 */
  readonly local?: number;
}

const sets = state('hshare.sets', { kind: 'position', rows: 'query' }),
  has = state('hshare.has', { kind: 'sequence', rows: 'query' }),
  overlap = state('hshare.overlap', { kind: 'unit', rows: 'query' });
/** Leader minus own index: 0 shares with none. Heads `[H, 1]`, layers `[1, L]`. */
const uses = state('hshare.uses', { kind: 'sequence', rows: 'query' }),
  layerUses = state('hshare.layers.uses', { kind: 'unit', rows: 'model' });
const lists = state('hshare.layers.sets', { kind: 'unit', rows: 'model' }),
  layerOverlap = state('hshare.layers.overlap', { kind: 'unit', rows: 'model' });
/** Retrievals so far, f32 `[H, 1]`: over steps, layers and heads this is the retrieval ratio. */
const retrievals: State<'hshare.retrievals'> = state('hshare.retrievals', { kind: 'sequence', rows: 'query' });

/**
 * HShare: inside a view, a retrieved set serves the next tokens, and heads and layers whose sets overlap most use one
 * another's; sinks and the local window are each query's own.
 *
 * @remarks HShare, ICLR 2025: sharing over queries, layers and heads, in this order of precedence, greedily by overlap,
 * pairs j < i, i uses j, and neither is i used any more; chains end at their last head or layer. The authors measure
 * overlap over the prompt's
 * queries, a view sees none: here over the first generated tokens, of a sequence's life. At most 128 heads and 128
 * layers share. Rows that share run neither scorer nor selector where these mind it. Layers leave their sets as lists,
 * budget numbers a query head.
 * @throws KvError if `heads` or `layers` is outside [0, 1], `query` not positive, or another option no whole number.
 */
export function sharedSets({
  query = 2,
  heads = 0.5,
  layers = 0.5,
  measure = 8,
  sinks = 8,
  local = 32,
}: HShareOptions = {}): Hooked<'sharedSets'> {
  checkNumber('sharedSets', 'query', query, 'a positive whole number of tokens', isPositiveInteger);
  for (const [name, value] of Object.entries({ heads, layers }))
    checkNumber('sharedSets', name, value, 'a share from 0 to 1', (x) => x >= 0 && x <= 1);
  for (const [name, value] of Object.entries({ measure, sinks, local }))
    checkNumber('sharedSets', name, value, 'a whole number', isCount);
  const needs = [positions, sets, has, overlap, uses, retrievals, layerUses, lists, layerOverlap] as const;
  return wrapSelect({ name: 'sharedSets', options: { query, heads, layers, measure, sinks, local } }, needs, (ctx) => {
    const { ops, at, positions: p, inner } = ctx,
      { queryHeads: H, layers: L, layer, budget: width } = at,
      before = ctx['hshare.sets'],
      place = { layer, layers: L, width };
    const measuring = (heads > 0 || layers > 0) && at.step <= measure,
      settling = at.step === measure + 1,
      renews = measuring || at.length % query === 0,
      follows = layers > 0 && renews && !measuring && layer > 0;
    const others = (): Tensor => sized(ops, ctx['hshare.layers.sets'], L * H * width),
      common = (): Tensor => sized(ops, ctx['hshare.layers.overlap'], L * L);

    const own = column(ops, H),
      shares =
        settling && heads > 0
          ? ops.sub(ops.kernel(leaders, { overlap: ctx['hshare.overlap'] }, { share: Math.floor(heads * H) }), own)
          : ctx['hshare.uses']; // [H, 1]
    const offset = follows
      ? ops.take(sized(ops, ctx['hshare.layers.uses'], L), ops.from({ data: Uint32Array.of(layer), shape: [1, 1] }))
      : ops.from({ data: [0], shape: [1, 1] });
    const due = renews ? ops.fill(own, 1) : ops.less(ctx['hshare.has'], 1),
      active = ops.mul(due, ops.mul(ops.zip('equal', shares, 0), ops.zip('equal', offset, 0)));
    const { kept, scores } = inner(active),
      row = ops.mul(ops.add(scores, own), 0),
      fixed = ops.max(ops.add(row, ops.less(p, sinks)), ops.lastSlots(row, local)); // [H, n]
    const got = ops.mark(kept, row),
      mine = ops.groupSlots('sum', ops.mul(got, ops.less(fixed, 1)), p, at.length); // [H, N]
    const chosen = ops.kernel(rowsOfLeaders, { sets: ops.where(active, mine, before), leader: ops.add(own, shares) });
    const held = ops.where(
      due,
      follows ? ops.kernel(ofLayer, { lists: others(), offset, sets: chosen }, place) : chosen,
      before,
    );
    const seen = ops.where(active, got, ops.max(fixed, ops.take(held, p))),
      count = ops.reduce('sum', held, 'slots');
    return {
      kept: ops.select(seen, ops.reduce('sum', seen, 'slots')),
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
              place,
            ),
          }),
        ...(settling &&
          layers > 0 &&
          layer === 0 && {
            'hshare.layers.uses': ops.reshape(
              ops.sub(
                ops.kernel(leaders, { overlap: ops.reshape(common(), [L, L]) }, { share: Math.floor(layers * L) }),
                column(ops, L),
              ),
              [1, L],
            ),
          }),
        ...(renews &&
          layers > 0 &&
          layer + 1 < L && {
            'hshare.layers.sets': ops.kernel(listed, { list: ops.select(held, count), count, before: others() }, place),
          }),
      },
    };
  });
}

const column = (ops: Ops, length: number): Tensor =>
  ops.from({ data: Float32Array.from({ length }, (_, i) => i), shape: [length, 1] });
/** Zeros where nothing of this width was written yet. */
const sized = (ops: Ops, x: Tensor, columns: number): Tensor =>
  x.shape[1] === columns ? x : ops.from({ data: new Float32Array(columns), shape: [1, columns] });

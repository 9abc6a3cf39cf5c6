import { checkNumber, isCount, isPositiveInteger, positions, state, wrapSelect } from '@kv/core';
import type { Hooked } from '@kv/core';
import { leaders, overlaps, rowsOfLeaders } from './heads.ts';

export interface HShareOptions {
  /** Tokens that share one retrieval: the sets are chosen anew where the cache's length is a multiple of it. @defaultValue 2 */
  readonly query?: number;
  /** Share of the query heads that use another head's set. @defaultValue 0.5 */
  readonly heads?: number;
  /** Generated tokens over which the overlap of heads is measured; until then every head retrieves at every token. @defaultValue 8 */
  readonly measure?: number;
  /** First positions, always visible. @defaultValue 8 */
  readonly sinks?: number;
  /** Last slots, always visible; the window moves with the query. @defaultValue 32 */
  readonly local?: number;
}

const sets = state('hshare.sets', { kind: 'position', rows: 'query' }), has = state('hshare.has', { kind: 'sequence', rows: 'query' }), overlap = state('hshare.overlap', { kind: 'unit', rows: 'query' });

/**
 * HShare: inside a view, a retrieved set serves the next tokens, and heads whose sets overlap most use one another's; sinks and the local window are each query's own.
 *
 * @remarks HShare, ICLR 2025: sharing over queries and heads, greedily by overlap, pairs j < i, i uses j, and neither is i used any more; chains end at their last head. The authors measure overlap over the prompt's queries, a view sees none: here over the first
 * generated tokens, of a sequence's life. Sharing between layers is not part of it. Rows that share run neither scorer nor selector where these mind it.
 * @throws KvError if `heads` is outside [0, 1], `query` not positive, or another option no whole number.
 */
export function sharedSets({ query = 2, heads = 0.5, measure = 8, sinks = 8, local = 32 }: HShareOptions = {}): Hooked<'sharedSets'> {
  checkNumber('sharedSets', 'query', query, 'a positive whole number of tokens', isPositiveInteger);
  checkNumber('sharedSets', 'heads', heads, 'a share from 0 to 1', (x) => x >= 0 && x <= 1);
  for (const [name, value] of Object.entries({ measure, sinks, local })) checkNumber('sharedSets', name, value, 'a whole number', isCount);
  return wrapSelect({ name: 'sharedSets', options: { query, heads, measure, sinks, local } }, [positions, sets, has, overlap], (ctx) => {
    const { ops, at, positions: p, inner } = ctx, H = at.queryHeads, measuring = heads > 0 && at.step <= measure;
    const own = ops.from({ data: Float32Array.from({ length: H }, (_, h) => h), shape: [H, 1] }), shares = heads > 0 && !measuring, leader = shares ? ops.kernel(leaders, { overlap: ctx['hshare.overlap'] }, { share: Math.floor(heads * H) }) : own;
    const due = measuring || at.length % query === 0 ? ops.fill(own, 1) : ops.less(ctx['hshare.has'], 1), active = ops.mul(due, ops.zip('equal', leader, own));
    const { kept, scores } = inner(active), row = ops.mul(ops.add(scores, own), 0), fixed = ops.max(ops.add(row, ops.less(p, sinks)), ops.lastSlots(row, local)); // [H, n]
    const got = ops.mark(kept, row), mine = ops.groupSlots('sum', ops.mul(got, ops.less(fixed, 1)), p, at.length); // [H, N]
    const held = ops.where(active, mine, ctx['hshare.sets']), shared = shares ? ops.kernel(rowsOfLeaders, { sets: held, leader }) : held;
    const seen = ops.where(active, got, ops.max(fixed, ops.take(shared, p)));
    return { kept: ops.select(seen, ops.reduce('sum', seen, 'slots')), state: { 'hshare.sets': held, 'hshare.has': ops.max(ctx['hshare.has'], active), ...(measuring && { 'hshare.overlap': ops.kernel(overlaps, { sets: mine, before: ctx['hshare.overlap'] }) }) } };
  });
}

import {
  as,
  count,
  keys,
  layerInput,
  LOWEST,
  maybe,
  number,
  oneOf,
  positions,
  queries,
  rope,
  state,
  whole,
  wrapSelect,
} from '@kv/core';
import { turn } from '@kv/core/shared';
import type { AnySignal, Ops, Rope, State, Tensor } from '@kv/core';
import { loopBytes } from './cis-loop.ts';
import { decode, matching, newestKey, PER_FIELD, remember } from './history.ts';

/** What is compared of each step of a block, f32 `[H, block d]`. */
const pastOf = (block: number): State => state(`cis.queries(${block})`, { kind: 'unit', rows: 'query' });
/** Retrievals so far, f32 `[H, 1]`: divided by steps, layers and heads this is the retrieval ratio. */
export const retrievals = state('cis.retrievals', { kind: 'sequence', rows: 'query' });
/** Number of steps back to the retrieval that the newest query reused, f32 `[H, 1]`; 0 where it retrieved. */
const ago = state('cis.ago', { kind: 'sequence', rows: 'query' });
/** 1 + the step that retrieved the set of each step of a block, f32 `[H, block]`. */
const ownersOf = (block: number): State =>
  state(`cis.owners(${block})`, { kind: 'sequence', rows: 'query', width: block });
/** Tokens there were at the block's last step, f32 `[H, 1]`: one fewer than now, unless others came between. */
const lastOf = (block: number): State => state(`cis.last(${block})`, { kind: 'sequence', rows: 'query' });
/** Retrieved sets of a block by position, as codes. */
const fieldsOf = (block: number): readonly State<`cis.sets.${number}`>[] =>
  Array.from({ length: Math.ceil(block / PER_FIELD) }, (_, f) =>
    state(`cis.sets.${f}`, { kind: 'position', rows: 'query' }),
  );

/**
 * CIS: inside a view, a query whose cosine to an earlier query of its block is above τ reuses that query's set,
 * dilated; otherwise it retrieves.
 *
 * @remarks PrHS, section IV-A, eq. 12 and 13, per query head. Compares queries after RoPE, or before it (eq. 1 and 12
 * have no rotation), or, as in table VII, keys after RoPE or hidden states. A block is of steps in a row: tokens that
 * this piece did not see, such as a prompt's, end it. The most recent query above τ counts. One that reused a set
 * itself passes that set on, dilated once, so that sets do not grow along a chain; `among` 'retrievers' leaves such
 * queries out. Of the middle of a reused set (neither sinks nor local window) the m strongest, ⌊k / 3⌋ by default,
 * bring their ±r neighbours (figure 8). Rows that reuse run neither scorer nor selector: `queryKeyProducts` reads no key for them.
 */
export const cis = wrapSelect(
  'cis',
  {
    source: 'PrHS (CIS, PSAW, ETF), section IV-A',
    says: 'A query reuses the set that a similar query of its block retrieved.',
    options: {
      block: count(8, 'steps', 'Decoding steps of a block, within which sets are shared.', { most: 3 * PER_FIELD }),
      threshold: number(0.8, 'Cosine above which a set is reused; above 1 every query retrieves.'),
      compare: oneOf(
        ['queries', 'unrotated', 'keys', 'hidden'],
        'queries',
        'What is compared of two tokens: their queries, the same before rotation, the keys of their KV head, or what the layer reads of them.',
      ),
      among: oneOf(
        ['any', 'retrievers'],
        'any',
        'The earlier queries it is compared with: any, as the paper has it, or only those that retrieved.',
      ),
      dilation: whole(1, 'slots', 'Neighbours on either side that the strongest of a reused set bring.'),
      strongest: maybe(whole(0, 'slots', 'How many of a reused set bring them, m; left out, a third of it.')),
      sinks: whole(4, 'positions', 'First positions, always visible.'),
      local: whole(32, 'slots', 'Last slots, always visible; the window moves with the query.'),
    },
    needs: ({ block, compare }) => [
      as('newest', compare === 'keys' ? keys : compare === 'hidden' ? layerInput : queries(1)),
      positions,
      ...(compare === 'unrotated' ? [rope as AnySignal] : []),
      as('past', pastOf(block)),
      as('owners', ownersOf(block)),
      as('last', lastOf(block)),
      retrievals,
      ago,
      ...fieldsOf(block),
    ],
    loop: ({ block, threshold, compare, among, dilation, strongest, sinks, local }) =>
      compare === 'unrotated' || compare === 'hidden'
        ? undefined // a loop has no angles, nor what a layer reads
        : {
            bytes: loopBytes,
            words: [
              block,
              ...new Uint32Array(Float64Array.of(threshold).buffer),
              Number(compare === 'keys'),
              dilation,
              strongest ?? 0xffffffff,
              sinks,
              local,
              Number(among === 'any'),
            ],
            states: [
              { state: pastOf(block), columns: ({ headDim }) => block * headDim },
              ...[ownersOf(block), retrievals, ago, lastOf(block), ...fieldsOf(block)].map((state) => ({ state })),
            ],
            reads: ({ headDim }) => (compare === 'keys' ? headDim : 0),
          },
  },
  (ctx, { block, threshold, compare, among, dilation, strongest, sinks, local }) => {
    const { ops, at, positions: p, newest, past, last, inner } = ctx;
    const now = at.step % block;
    const same = ops.mul(ops.zip('equal', last, at.length - 1), Number(now > 0)); // [H, 1]: the block goes on
    const owners = ops.mul(ctx.owners, same);
    const query = // [H, 1, d]
      compare === 'keys'
        ? keyOf(ops, newest, p, at.queryHeads)
        : compare === 'unrotated'
          ? unrotated(ops, newest, (ctx as unknown as { readonly rope: Rope }).rope, at.length - 1) // `needs` lists it
          : compare === 'hidden'
            ? ops.kernel(newestKey, { keys: newest, counts: ops.fill(ops.norm(newest), 1) }, { heads: at.queryHeads })
            : newest;
    const found = ops.kernel(matching, { query, past, owners }, { now, threshold, any: Number(among === 'any') });
    const active = ops.less(found, 1); // [H, 1]
    const { kept, scores } = inner(active);
    const none = ops.fill(ops.broadcast(scores, at.queryHeads), 0); // [H, n]
    const fixed = ops.max(ops.add(none, ops.less(p, sinks)), ops.lastSlots(none, local));
    const got = ops.mark(kept, none);
    const middle = ops.mul(got, ops.not(fixed));
    const most = strongest ?? ops.map('floor', ops.div(ops.sum(middle), 3));
    const strong = ops.mul(middle, ops.less(ops.rank(ops.where(middle, scores, LOWEST), 'row'), most));
    const fields = fieldsOf(block);
    const held = fields.map((f) => ops.mul(ctx[f.as], same)); // [H, N]
    const codes = held
      .map((field, f) => ops.kernel(decode, { field: ops.take(field, p), found }, { first: f * PER_FIELD }))
      .reduce((a, b) => ops.add(a, b)); // [H, n]
    const wide = ops.pool(ops.atLeast(codes, 2), { kernel: 2 * dilation + 1, kind: 'max' });
    const seen = ops.where(active, got, ops.max(fixed, ops.max(ops.min(codes, 1), wide)));
    const one = ops.from({
      data: Float32Array.from({ length: block }, (_, b) => Number(b === now)),
      shape: [1, block],
    });
    const code = ops.mul(ops.mul(ops.add(middle, strong), active), 4 ** (now % PER_FIELD));
    const written = ops.groupSlots('sum', code, p, at.length); // [H, N]
    const mine = Math.floor(now / PER_FIELD);
    return {
      kept: ops.select(seen, ops.sum(seen)),
      state: {
        past: ops.kernel(remember, { query, past }, { now, steps: block }),
        owners: ops.where(one, ops.where(active, now + 1, found), owners),
        last: ops.fill(last, at.length),
        'cis.retrievals': ops.add(ctx['cis.retrievals'], active),
        'cis.ago': ops.where(active, 0, ops.sub(now + 1, found)),
        ...Object.fromEntries(fields.map((s, f) => [s.as, f === mine ? ops.add(held[f], written) : held[f]])),
      },
    };
  },
);

/** Queries of the token at a position, before rotation to it, `[H, 1, d]`. */
const unrotated = (ops: Ops, query: Tensor, turns: Rope, position: number): Tensor =>
  turn(ops, query, turns, Uint32Array.of(position), ops.from({ data: Uint32Array.of(0), shape: [1, 1] }), true);

/** The newest token's key for each query head, `[H, 1, d]`: the key of its KV head. */
function keyOf(ops: Ops, all: Tensor, p: Tensor, heads: number): Tensor {
  const counts = ops.broadcast(ops.sum(ops.fill(p, 1)), all.shape[0]); // [G, 1]
  return ops.kernel(newestKey, { keys: all, counts }, { heads });
}

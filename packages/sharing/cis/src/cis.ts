import { checkNumber, checkWord, isCount, isPositiveInteger, keys, LOWEST, positions, queries, state } from '@kv/core';
import { wrapSelect } from '@kv/core/old';
import type { AnySignal, Hooked, Ops, State, Tensor } from '@kv/core';
import { decode, matching, newestKey, PER_FIELD, remember } from './history.ts';

export interface CisOptions {
  /** Decoding steps of a block, s; sets are shared inside a block only. @defaultValue 8 */
  readonly block?: number;
  /** Cosine of queries above which a set is reused; above 1 every query retrieves. @defaultValue 0.8 */
  readonly threshold?: number;
  /** What is compared of two tokens: their queries, or the keys of their KV head. @defaultValue 'queries' */
  readonly compare?: 'queries' | 'keys';
  /** Neighbours on either side that the strongest third of a reused set brings, r. @defaultValue 1 */
  readonly dilation?: number;
  /** First positions, always visible. @defaultValue 4 */
  readonly sinks?: number;
  /** Last slots, always visible; the window moves with the query. @defaultValue 32 */
  readonly local?: number;
}

const past = state('cis.queries', { kind: 'unit', rows: 'query' });
/** Retrievals so far, f32 `[H, 1]`: over steps, layers and heads this is the retrieval ratio. */
export const retrievals: State<'cis.retrievals'> = state('cis.retrievals', { kind: 'sequence', rows: 'query' });

/** Steps back to the query whose set the newest one reused, f32 `[H, 1]`; 0 where it retrieved. */
const ago: State<'cis.ago'> = state('cis.ago', { kind: 'sequence', rows: 'query' });

/**
 * CIS: inside a view, a query whose cosine to an earlier query of its block is above τ reuses the set that one
 * retrieved, dilated; otherwise it retrieves.
 *
 * @remarks PrHS, section IV-A, eq. 12 and 13, per query head, on queries after RoPE, or, as in table VII, on keys after
 * RoPE; only sets of queries that retrieved are reused, the most recent first. Of the middle (neither sinks
 * nor local window) of a reused set, the ⌊k / 3⌋ strongest bring their ±r neighbours. Rows that reuse run neither
 * scorer nor selector: `dots` reads no key for them.
 * @throws KvError if `block` is not 1 to 36, `threshold` no number, `compare` no such word, or another option no whole
 * number.
 */
export function cis({
  block = 8,
  threshold = 0.8,
  compare = 'queries',
  dilation = 1,
  sinks = 4,
  local = 32,
}: CisOptions = {}): Hooked<'cis'> {
  checkNumber(
    'cis',
    'block',
    block,
    'a whole number of steps from 1 to 36',
    (s) => isPositiveInteger(s) && s <= 3 * PER_FIELD,
  );
  checkNumber('cis', 'threshold', threshold, 'a finite number', Number.isFinite);
  checkWord('cis', 'compare', compare, ['queries', 'keys']);
  for (const [name, value] of Object.entries({ dilation, sinks, local }))
    checkNumber('cis', name, value, 'a whole number', isCount);
  const owned = state(`cis.owned(${block})`, { kind: 'sequence', rows: 'query', width: block });
  const fields = Array.from({ length: Math.ceil(block / PER_FIELD) }, (_, f) =>
    state(`cis.sets.${f}`, { kind: 'position', rows: 'query' }),
  );
  const compared: AnySignal = compare === 'keys' ? keys : queries(1),
    needs = [compared, positions, past, owned, retrievals, ago, ...fields] as const;
  return wrapSelect(
    {
      name: 'cis',
      options: { block, threshold, compare: compare === 'keys' ? compare : undefined, dilation, sinks, local },
    },
    needs,
    (ctx) => {
      const { ops, at, positions: p, inner } = ctx,
        now = at.step % block,
        read = (s: State): Tensor => ctx[s.as as keyof typeof ctx] as Tensor;
      const newest = (ctx as unknown as Readonly<Record<string, Tensor>>)[compared.as],
        query = compare === 'keys' ? keyOf(ops, newest, p, at.queryHeads) : newest;
      const has = read(owned),
        found = ops.kernel(matching, { query, past: ctx['cis.queries'], owned: has }, { now, threshold });
      const active = ops.less(found, 1),
        { kept, scores } = inner(active); // [H, 1]
      const row = ops.mul(ops.add(scores, found), 0),
        fixed = ops.max(ops.add(row, ops.less(p, sinks)), ops.lastSlots(row, local)); // [H, n]
      const got = ops.mark(kept, row),
        middle = ops.mul(got, ops.less(fixed, 1));
      const strong = ops.mul(
        middle,
        ops.less(
          ops.rank(ops.where(middle, scores, LOWEST), 'row'),
          ops.map('floor', ops.div(ops.reduce('sum', middle, 'slots'), 3)),
        ),
      );
      const held = fields.map((f) => (now === 0 ? ops.mul(read(f), 0) : read(f))); // [H, N]
      const codes = held
        .map((field, f) => ops.kernel(decode, { field: ops.take(field, p), found }, { first: f * PER_FIELD }))
        .reduce((a, b) => ops.add(a, b));
      const wide = ops.pool(ops.atLeast(codes, 2), { kernel: 2 * dilation + 1, kind: 'max' });
      const seen = ops.where(active, got, ops.max(fixed, ops.max(ops.min(codes, 1), wide)));
      const bit = 4 ** (now % PER_FIELD),
        mine = Math.floor(now / PER_FIELD),
        one = ops.from({ data: Float32Array.from({ length: block }, (_, b) => Number(b === now)), shape: [1, block] });
      const code = ops.groupSlots('sum', ops.mul(ops.add(middle, strong), bit), p, at.length);
      return {
        kept: ops.select(seen, ops.reduce('sum', seen, 'slots')),
        state: {
          'cis.queries': ops.kernel(remember, { query, past: ctx['cis.queries'] }, { now, steps: block }),
          [owned.as]: ops.add(ops.mul(has, ops.sub(1, one)), ops.mul(active, one)),
          'cis.retrievals': ops.add(ctx['cis.retrievals'], active),
          'cis.ago': ops.where(active, 0, ops.sub(now + 1, found)),
          ...Object.fromEntries(fields.map((s, f) => [s.as, f === mine ? ops.add(held[f], code) : held[f]])),
        },
      };
    },
  );
}

/** The newest token's key for each query head, `[H, 1, d]`: that of its KV head. */
const keyOf = (ops: Ops, all: Tensor, p: Tensor, heads: number): Tensor => {
  const [groups = 1] = all.shape,
    counts = ops.reduce('sum', ops.fill(p, 1), 'slots'),
    one = ops.from({ data: new Float32Array(groups).fill(1), shape: [groups, 1] });
  return ops.kernel(newestKey, { keys: all, counts: ops.mul(counts, one) }, { heads });
};

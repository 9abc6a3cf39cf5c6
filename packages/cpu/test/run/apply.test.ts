import ndarray from 'ndarray';
import { describe, expect, test } from 'vitest';
import {
  applyOn,
  attentionLast,
  compose,
  biases,
  keys,
  onAttend,
  onCompact,
  onEvict,
  positions,
  state,
  tokens,
  values,
  scoreAllocator,
  scorer,
  transform,
  weightScorer,
  weightTransform,
} from '@kv/core';
import { apply, attend, cpu } from '@kv/cpu';
import { topK } from './pieces.ts';

const knorm = scorer('knorm', { needs: [keys] }, ({ ops, keys: k }) => ops.sub(0, ops.norm(k)))();
const last = weightScorer('last', { needs: [attentionLast] }, ({ attention }) => attention)();
const drift = weightTransform('drift', { needs: [values] }, ({ ops, scores, values: v }) =>
  ops.distance(ops.matmul(ops.simplex(scores), v), v),
)();
const data = [3, 4, 0, 0, 6, 8];

describe('apply on plain numbers', () => {
  test('typed arrays and real ndarrays, also transposed ones, give the same', () => {
    const flat = apply(knorm, { keys: { data: Float32Array.from(data), shape: [1, 3, 2] } });
    expect(flat.scores).toEqual({ data: Float32Array.of(-5, 0, -10), shape: [1, 3] });
    expect(apply(knorm, { keys: ndarray(Float64Array.from(data), [1, 3, 2]) })).toEqual(flat);
    expect(apply(knorm, { keys: ndarray(Float32Array.of(3, 0, 6, 4, 0, 8), [1, 2, 3]).transpose(0, 2, 1) })).toEqual(
      flat,
    );
  });
  test('rows of numbers for scores, a budget for what is kept', () =>
    expect(
      apply(compose(last, topK()), {
        attention: [
          [0.1, 0.2, 0.7],
          [0.5, 0.4, 0.1],
        ],
        values: { data: new Float32Array(6), shape: [1, 3, 2] },
        budget: 2,
      }),
    ).toMatchObject({ kept: [[0, 2]], budgets: [2] }));
  test('without a budget all slots are kept', () =>
    expect(apply(compose(last, topK()), { attention: [[0.1, 0.2, 0.7]] }).kept).toEqual([[0, 1, 2]]));
  test('a transform starts from scores', () =>
    expect(apply(drift, { scores: [[1, 0]], values: { data: [0, 0, 3, 4], shape: [1, 2, 2] } }).scores).toEqual({
      data: Float32Array.of(0, 5),
      shape: [1, 2],
    }));
  test('positions default to 0 .. n - 1, state to its initial value', () => {
    const mark = state('mark', { kind: 'slot', rows: 'kv', init: 2 });
    expect(
      apply(scorer('p', { needs: [positions, mark] }, ({ ops, positions: p, mark: m }) => ops.mul(p, m))(), {
        at: { kvHeads: 1, slots: 3, length: 3 },
      }).scores!.data,
    ).toEqual(Float32Array.of(0, 2, 4));
  });
  test('tokens alone say how many slots there are', () =>
    expect(
      apply(
        scorer('ids', { needs: [tokens] }, ({ ops, tokens: t }) =>
          ops.from({ data: t.ids, shape: [1, t.ids.length] }),
        )(),
        {
          tokens: {
            ids: [7, 8],
            text: 'ab',
            offsets: [
              [0, 1],
              [1, 2],
            ],
          },
        },
      ).scores!.data,
    ).toEqual(Float32Array.of(7, 8)));
  test('budgets of an allocator that reads scores', () =>
    expect(
      apply(
        compose(last, scoreAllocator('less', {}, ({ ops, budgets }) => ({ budgets: ops.sub(budgets, 1) }))(), topK()),
        { attention: [[1, 2, 3]], budget: 2 },
      ),
    ).toMatchObject({ budgets: [1], kept: [[2]] }));
  test('on another backend, with one read', async () => {
    let reads = 0;
    const backend = {
      ...cpu,
      read: (t: Parameters<typeof cpu.read>[0]) => {
        reads++;
        return cpu.read(t);
      },
    };
    expect(await applyOn(backend, compose(last, topK()), { attention: [[1, 2, 3]], budget: 1 })).toMatchObject({
      kept: [[2]],
    });
    expect(reads).toBe(1);
  });
});

describe('hooks after a selection', () => {
  const doubled = onCompact('doubled', { needs: [values, biases], biases: () => true }, (ctx) => ({
    values: ctx.ops.mul(ctx.values, 2),
    biases: ctx.ops.add(ctx.biases, ctx.ops.mark(ctx.kept, ctx.biases)),
  }))();
  const total = state('total', { kind: 'sequence', rows: 'kv', width: 0, perChannel: 1 });
  const sums = onEvict(
    'sums',
    {
      needs: [values, total],
      hooks: () => [
        onAttend('sums', { needs: [total] }, ({ ops, queries: q, total: t }) => {
          const [H = 1, m = 1, d = 1] = q.shape;
          return {
            masses: ops.reduce('sum', q, 'channels'),
            values: ops.reshape(ops.broadcast(ops.broadcast(t, H), H * m), [H, m, d]),
          };
        })(),
      ],
    },
    ({ ops, values: v, total: t, kept }) => {
      const leaves = ops.sub(1, ops.mark(kept, ops.norm(v)));
      return { total: ops.add(t, ops.matmul(leaves, v)) };
    },
  )();
  const given = {
    attention: [
      [1, 2, 3],
      [3, 2, 1],
    ],
    values: [
      [
        [1, 1],
        [2, 2],
        [3, 3],
      ],
      [
        [4, 4],
        [5, 5],
        [6, 6],
      ],
    ],
    budget: 1,
  };
  test('what replaces the cache is returned', () => {
    const { kept, values: v, biases: b, states } = apply(compose(last, topK(), doubled), given);
    expect([kept, v, b, states]).toEqual([
      [[2], [0]],
      { data: Float32Array.of(2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12), shape: [2, 3, 2] },
      { data: Float32Array.of(0, 0, 1, 1, 0, 0), shape: [2, 3] },
      undefined,
    ]);
  });
  test('what is folded is returned, is taken again, and is added to attention', () => {
    const piece = compose(last, topK(), sums),
      once = apply(piece, given).states;
    expect(once).toEqual({ total: { data: Float32Array.of(3, 3, 11, 11), shape: [2, 2] } });
    const { states } = apply(piece, { ...given, ...once });
    expect(states!.total.data).toEqual(Float32Array.of(6, 6, 22, 22));
    expect(attend(sums, { queries: [[[1, 2]], [[3, 4]]], positions: [[3]], ...states })).toEqual({
      masses: { data: Float32Array.of(3, 7), shape: [2, 1] },
      values: { data: Float32Array.of(6, 6, 22, 22), shape: [2, 1, 2] },
    });
  });
  test('a hook that breaks its promise, and what attend lacks, are named', () => {
    const broken = onCompact('broken', { needs: [values] }, (ctx) => ({
      values: ctx.ops.log(ctx.ops.mul(ctx.values, 0)),
    }))();
    expect(() => apply(compose(last, topK(), broken), given)).toThrow('broken, layer 0: values must be finite');
    expect(() => attend(knorm, { queries: [[[1]]], positions: [[0]] })).toThrow(
      'knorm: expected a piece with an onAttend hook, got one without',
    );
    const at = { queries: [[[1, 2]]], positions: [[3]], total: [[1, 1]] };
    for (const [change, message] of [
      [{ positions: undefined }, "attend: expected 'positions' as [1, 1], got undefined"],
      [{ positions: [[NaN]] }, "attend: expected 'positions' as whole numbers, got NaN"],
      [{ positions: [[1, 2]] }, "attend: expected 'positions' as [1, 1], got the shape [1, 2]"],
      [{ queries: [[1, 2]] }, "attend: expected 'queries' as [query heads, queries, channels], got the shape [1, 2]"],
      [{ queries: [[[1, NaN]]] }, "attend: expected 'queries' as finite numbers, got NaN"],
      [{ queries: [[[1]]] }, "attend: expected 'total' as [1, 1], got the shape [1, 2]"],
      [{ total: undefined }, "attend: expected 'total' as [1, 2], got undefined"],
      [{ total: [[1, Infinity]] }, "attend: expected 'total' as finite numbers, got Infinity"],
      [
        {
          total: [
            [1, 1],
            [1, 1],
          ],
        },
        'attend: expected queries of a multiple of 2 heads, those of the states, got 1',
      ],
      [{ totals: [[1, 1]] }, "attend: expected 'total' of 'sums', got 'totals'"],
    ] as const)
      expect(() => attend(sums, { ...at, ...change } as never), message).toThrow(message);
    expect(() => attend(sums, undefined as never)).toThrow(
      'attend: expected signals by name such as { queries, positions }, got undefined',
    );
    expect(attend(compose(last, topK(), sums), at).values.data).toEqual(Float32Array.of(1, 1));
    const other = onCompact(
      'other',
      { needs: [values] },
      (ctx) => ({ values: ctx.values, bias: ctx.values }) as never,
    )();
    expect(() => apply(compose(last, topK(), other), given)).toThrow(
      "other, layer 0: expected keys, values or biases, got 'bias'",
    );
  });
  test('biases that are given count', () => {
    const weight = onEvict('weight', { needs: [biases, total] }, ({ ops, at, biases: b, total: t }) => ({
      total: ops.add(t, at.biased ? ops.sum(b) : 0),
    }))();
    const { states } = apply(compose(last, topK(), weight), {
      ...given,
      biases: [
        [1, 2, 3],
        [0, 0, 1],
      ],
    });
    expect(states!.total.data).toEqual(Float32Array.of(6, 6, 1, 1));
  });
});

describe('what is missing or wrong is named', () => {
  test('a signal', () =>
    expect(() => apply(knorm, { scores: [[1, 2]] })).toThrow(
      "knorm: needs the signal keys: pass it as 'keys', got scores",
    ));
  test('scores to start from', () =>
    expect(() => apply(transform('f', {}, ({ scores }) => scores)(), {})).toThrow(
      'f: starts from scores or weights: expected { scores }, got nothing',
    ));
  test('a score that is not finite', () =>
    expect(() => apply(transform('f', {}, ({ ops, scores }) => ops.log(scores))(), { scores: [[1, 0]] })).toThrow(
      'f, layer 0: scores must be finite, got -Infinity in row 0, slot 1',
    ));
  test('data that its shape does not fit', () =>
    expect(() => apply(knorm, { keys: { data: [1, 2], shape: [1, 2, 2] } })).toThrow(
      'shape [1,2,2] needs 4 numbers, got 2',
    ));
});

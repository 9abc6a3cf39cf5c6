import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  attentionLast,
  attentionWindow,
  compose,
  keys,
  mandatory,
  max,
  positions,
  state,
  sum,
  values,
  weighted,
  onStep,
  scoreAllocator,
  scorer,
  selector,
  transform,
  weightScorer,
  whole,
} from '@kv/core';
import { apply, cpu } from '@kv/cpu';
import { compile, planBudgets, runEvent, runSteps, readDecisions, signalKey } from '@kv/core/engine';
import type { AnySignal, Piece, BudgetPlan, Tensor } from '@kv/core';
import * as pieces from './pieces.ts';
import { at, event, layer, matrix, ops } from './engine.ts';

const last = () => weightScorer('last', { needs: [attentionLast] }, ({ attention }) => attention)();
const topK = pieces.topK;

describe('signals', () => {
  test('the needs of a policy are the union, each once, also with equal arguments', () => {
    const piece = compose(
      sum(
        weightScorer('a', { needs: [attentionWindow(8), keys] }, ({ attention }) => attention)(),
        weightScorer('b', { needs: [attentionWindow(8)] }, ({ attention }) => attention)(),
        weightScorer('d', { needs: [attentionWindow(4)] }, ({ attention }) => attention)(),
      ),
      transform('c', { needs: [values, keys] }, ({ scores }) => scores)(),
      topK(),
    );
    expect(compile(piece).needs.map(signalKey)).toEqual([
      'attention.window(w=8)',
      'keys',
      'attention.window(w=4)',
      'values',
    ]);
  });
  test('only what is declared is read', async () => {
    const l = layer({ 'attention.last': matrix([[1, 2, 3, 4]]) });
    await event(compose(last(), topK()), l);
    expect(l.reads).toEqual(['attention.last']);
  });
  test('reading an undeclared one throws with both names', () => {
    const sly = {
      ...last(),
      atoms: [
        {
          ...last().atoms[0],
          run: (cells: readonly { read(s: AnySignal): unknown }[]) => cells.map((c) => c.read(keys)),
        },
      ],
    } as unknown as Piece;
    expect(() => runEvent(compile(sly), [layer({})], ops)).toThrow(
      'last: reads the signal keys, which it does not declare (attention.last)',
    );
  });
  test('so does one of core that a piece looks for in its context, unless options decide what it needs', () => {
    const looks = (needs: []): Piece =>
      scorer('sly', { needs }, (ctx) => ctx.ops.norm((ctx as unknown as Record<string, Tensor>)['keys']))();
    expect(() => runEvent(compile(looks([])), [layer({})], ops)).toThrow(
      "sly, layer 0: reads the signal 'keys', expected it among its needs",
    );
    const free = scorer(
      'free',
      { needs: (): [typeof attentionLast] | [typeof attentionLast, typeof keys] => [attentionLast] },
      (ctx) => (ctx.keys ? ctx.ops.norm(ctx.keys) : ctx.attention),
    )();
    expect(runEvent(compile(free), [layer({ 'attention.last': matrix([[1, 2, 3, 4]]) })], ops)).toHaveLength(1);
  });
});

describe('settle', () => {
  test.each([[NaN], [Infinity], [-Infinity]])('a score of %d names piece, layer, row and slot', async (bad) => {
    const layers = [
      layer(
        {
          'attention.last': matrix([
            [1, 2, 3, 4],
            [1, 2, 3, 4],
          ]),
        },
        { queryHeads: 2 },
      ),
      layer(
        {
          'attention.last': matrix([
            [1, 2, 3, 4],
            [1, 2, bad, 4],
          ]),
        },
        { layer: 1, queryHeads: 2 },
      ),
    ];
    await expect(event(compose(last(), topK()), ...layers)).rejects.toThrow(
      `last, layer 1: scores must be finite and at least 0, got ${bad} in row 1, slot 2`,
    );
  });
  test('a negative weight is an error, a negative score is none', async () => {
    const signals = { 'attention.last': matrix([[1, -2, 3, 4]]) };
    await expect(event(compose(last(), topK()), layer(signals))).rejects.toThrow(
      'last, layer 0: scores must be finite and at least 0, got -2 in row 0, slot 1',
    );
    expect(
      (
        await event(
          compose(scorer('any', { needs: [attentionLast] }, ({ attention }) => attention)(), topK()),
          layer(signals),
        )
      ).kept,
    ).toEqual([[Uint32Array.of(2, 3)]]);
  });
  test('the first piece that is wrong is named, not the one after it', async () =>
    expect(
      event(
        compose(last(), transform('after', {}, ({ scores }) => scores)(), topK()),
        layer({ 'attention.last': matrix([[NaN, 0, 0, 0]]) }),
      ),
    ).rejects.toThrow(/^last, layer 0/));
  test('what stands beyond the valid slots is no error', async () =>
    expect(
      (await event(compose(last(), topK()), layer({ 'attention.last': matrix([[1, 2, NaN, NaN]], [2]) }))).kept,
    ).toEqual([[Uint32Array.of(0, 1)]]));
  test('more forced slots than budget are an error that names layer and head', async () => {
    const forcing = weightScorer('forcing', { needs: [attentionLast] }, ({ ops: o, attention }) => ({
      scores: attention,
      forced: o.lastSlots(attention, 3),
    }))();
    await expect(
      event(
        compose(forcing, topK()),
        layer(
          {
            'attention.last': matrix([
              [1, 2, 3, 4],
              [1, 2, 3, 4],
            ]),
          },
          { kvHeads: 2, queryHeads: 2, selectRows: 2, layer: 3 },
          [3, 2],
        ),
      ),
    ).rejects.toThrow(
      'budget: layer 3, head 1: 3 slots are forced, but the budget is 2: expected a budget of at least 3, as forcing forces them',
    );
  });
  test('a selector that keeps too many is named itself, though slots are forced', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 7 }),
        fc.integer({ min: 1, max: 7 }),
        fc.integer({ min: 1, max: 3 }),
        async (budget, recent, more) => {
          const forcing = weightScorer('forcing', { needs: [attentionLast] }, ({ ops: o, attention }) => ({
              scores: attention,
              forced: o.lastSlots(attention, recent),
            }))(),
            greedy = selector('greedy', {}, ({ ops: o, scores, budgets, ...masks }) =>
              o.select(scores, o.add(o.max(budgets, recent), more), masks),
            )(),
            row = [8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2],
            got = Math.max(budget, recent) + more,
            wrong =
              recent > budget
                ? `budget: layer 0, head 0: ${recent} slots are forced, but the budget is ${budget}: expected a budget of at least ${recent}, as forcing forces them`
                : `greedy, layer 0: expected at most the ${budget} slots of its budget in head 0, got ${got}`;
          await expect(
            event(
              compose(forcing, greedy),
              layer({ 'attention.last': matrix([row, row]) }, { queryHeads: 2, slots: 11 }, [budget]),
            ),
          ).rejects.toThrow(wrong);
          expect(() => apply(compose(forcing, greedy), { attention: [row], budget })).toThrow(wrong);
        },
      ),
    );
  });
  test('more forced slots than budget name all who force them, and their options, inside combinations too', async () => {
    const signals = {
      'attention.last': matrix([[1, 2, 3, 4]]),
      positions: ops.from({ data: Uint32Array.of(0, 1, 2, 3), shape: [1, 4] }),
    };
    const window = scorer(
      'window',
      { needs: [attentionLast], options: { last: whole(2, 'slots', '') }, minSlots: ({ last: n }) => n },
      ({ ops, attention }, { last: n }) => ({ scores: attention, forced: ops.lastSlots(attention, n) }),
    );
    for (const policy of [
      compose(window(), mandatory({ sinks: 1, recent: 0 }), topK()),
      compose(sum(window(), last()), mandatory({ sinks: 1, recent: 0 }), topK()),
    ]) {
      await expect(event(policy, layer(signals, {}, [2]))).rejects.toThrow(
        'budget: layer 0, head 0: 3 slots are forced, but the budget is 2: expected a budget of at least 3, as window(last=2) and mandatory(sinks=1,recent=0) force them',
      );
      expect(compile(policy).budgetHint(4, 2)).toBe(
        'expected a budget of at least 3, as window(last=2) and mandatory(sinks=1,recent=0) force them',
      );
    }
  });
  test('a policy without a selector is an error', async () =>
    expect(event(last() as Piece, layer({ 'attention.last': matrix([[1, 2, 3, 4]]) }))).rejects.toThrow(
      'layer 0 ended without kept slots, expected a policy that ends in a selector',
    ));
  test('a selector with no scores before it says what it lacks', async () =>
    expect(event(compose(topK()), layer({}))).rejects.toThrow(
      /^topK, layer 0: expected scores of a piece before it, got none$/,
    ));
  test.each([
    [new Float32Array(24), 'a Float32Array of 24 numbers'],
    [[1, 2, 3, 4], '[1, 2, 3, 4]'],
    [{ data: Float32Array.of(1, 2, 3, 4), shape: [1, 4] }, 'an object'],
  ])('numbers of the host instead of a tensor are named (%#)', (given, got) =>
    expect(event(compose(scorer('plain', {}, () => given as never)(), topK()), layer({}))).rejects.toThrow(
      `plain, layer 0: expected scores as f32 [1, 4], got ${got} (ops.from makes tensors)`,
    ),
  );
  test('one kept row stands for every head', async () => {
    const settled = await event(
      compose(
        last(),
        selector('shared', {}, ({ ops: o, scores, budgets }) => o.select(scores, o.reduce('max', budgets, 'rows')))(),
      ),
      layer({ 'attention.last': matrix([[1, 4, 3, 2]]) }, { kvHeads: 2, selectRows: 2 }),
    );
    expect(settled.kept).toEqual([[Uint32Array.of(1, 2), Uint32Array.of(1, 2)]]);
  });
  test('an event is one read', async () => {
    let reads = 0;
    const layers = [
      layer({ 'attention.last': matrix([[1, 2, 3, 4]]) }),
      layer({ 'attention.last': matrix([[1, 2, 3, 4]]) }, { layer: 1 }),
    ];
    await readDecisions(
      {
        ...cpu,
        read: (t) => {
          reads++;
          return cpu.read(t);
        },
      },
      layers,
      runEvent(compile(compose(last(), topK())), layers, ops),
    );
    expect(reads).toBe(1);
  });
});

describe('query rows', () => {
  test('a selector means scores and unites masks over each group', async () => {
    const mask = weightScorer('mask', { needs: [attentionLast] }, ({ attention }) => ({
      scores: attention,
      forced: matrix([
        [0, 0, 0, 0],
        [1, 0, 0, 0],
      ]),
    }))();
    expect(
      (
        await event(
          compose(mask, topK()),
          layer(
            {
              'attention.last': matrix([
                [0, 9, 0, 1],
                [0, 1, 8, 0],
              ]),
            },
            { queryHeads: 2 },
          ),
        )
      ).kept,
    ).toEqual([[Uint32Array.of(0, 1)]]);
  });
});

describe('masks and floors', () => {
  const forcing = (name: string, slot: number) =>
    weightScorer(name, { minSlots: () => 1, needs: [attentionLast] }, ({ attention }) => ({
      scores: attention,
      forced: ops.atLeast(matrix([[0, 1, 2, 3].map((i) => Number(i === slot))]), 1),
    }))();
  test('masks of combined scorers are united, floors added, never above the slots', async () => {
    const policy = compose(sum(forcing('a', 0), forcing('b', 1)), topK());
    expect((await event(policy, layer({ 'attention.last': matrix([[0, 0, 5, 5]]) }))).kept).toEqual([
      [Uint32Array.of(0, 1)],
    ]);
    expect(compile(policy).minSlots(10, 5)).toBe(2);
    expect(compile(policy).minSlots(1, 5)).toBe(1);
  });
  test('hooks of combined scorers come along', () => {
    const hook = onStep('decay', {}, () => ({}))();
    expect(
      compile(compose(max(compose(last(), hook), weighted([1, compose(last(), hook)])), topK()))
        .hooks('step')
        .map((h) => h.label),
    ).toEqual(['decay']);
  });
  test('the reach of a combination is its widest part', () => {
    const wide = scorer('wide', { needs: [attentionLast], reach: 'model' }, ({ attention }) => attention)();
    expect(compile(sum(last(), wide)).reach).toBe('model');
    expect(compile(sum(last())).reach).toBe('layer');
    expect(
      compile(
        compose(
          weightScorer('whole', { needsFullPrompt: true }, ({ ops: o }) => o.from({ data: [1], shape: [1, 1] }))(),
          topK(),
        ),
      ).needsFullPrompt,
    ).toBe(true);
  });
  test('a model scorer sees all layers at once', async () => {
    const wide = scorer(
      'wide',
      {
        needs: [attentionLast],
        acrossLayers: (layers) => layers.map(({ attention }) => attention).reduce((a, b) => ops.add(a, b)),
      },
      ({ acrossLayers }) => acrossLayers,
    )();
    const layers = [
      layer({ 'attention.last': matrix([[4, 0, 0, 1]]) }),
      layer({ 'attention.last': matrix([[0, 3, 0, 2]]) }, { layer: 1 }),
    ];
    expect((await event(compose(wide, topK()), ...layers)).kept).toEqual([
      [Uint32Array.of(0, 1)],
      [Uint32Array.of(0, 1)],
    ]);
  });
});

describe('state', () => {
  const count = state('count', { kind: 'slot', rows: 'kv' });
  const counting = weightScorer('counting', { needs: [attentionLast, count] }, ({ ops: o, attention, count: c }) => ({
    scores: attention,
    state: { count: o.add(c, 1) },
  }))();
  test('what a step writes the steps after it read, and the event gives it back', () => {
    const reader = transform('reader', { needs: [count] }, ({ count: c }) => c)(),
      l = layer({ 'attention.last': matrix([[1, 2, 3, 4]]), 'state.count': matrix([[5, 5, 5, 5]]) });
    const [draft] = runEvent(compile(compose(counting, reader, topK())), [l], ops);
    expect(draft.scores).toMatchObject({ data: Float32Array.of(6, 6, 6, 6) });
    expect([...draft.state.keys()]).toEqual(['state.count']);
  });
  test('state inside a combination comes out of it', () =>
    expect(
      runSteps(
        compile(sum(counting)).steps,
        [layer({ 'attention.last': matrix([[1, 2, 3, 4]]), 'state.count': matrix([[0, 0, 0, 0]]) })],
        ops,
        [{ budgets: matrix([[2]]), state: new Map(), checks: [] }],
      )[0].state.has('state.count'),
    ).toBe(true));
  test('writing undeclared state is an error', () =>
    expect(() =>
      runEvent(
        compile(
          weightScorer('sly', { needs: [attentionLast, count] }, ({ attention }) => ({
            scores: attention,
            state: { other: attention },
          }))(),
        ),
        [layer({ 'attention.last': matrix([[1, 2, 3, 4]]) })],
        ops,
      ),
    ).toThrow("sly: writes the state 'other', expected one of the states it declares (count)"));
  test('a step hook writes the state that it declares', () => {
    const [hook] = compile(
      onStep('tick', { needs: [count] }, ({ ops: o, count: c }) => ({ count: o.mul(c, 2) }))(),
    ).hooks('step');
    const [written] = hook.run([
      {
        at: at(),
        ops,
        draft: { budgets: matrix([[2]]), state: new Map(), checks: [] },
        read: () => matrix([[1, 2]]) as never,
      },
    ]);
    expect(written.get('state.count')).toMatchObject({ data: Float32Array.of(2, 4) });
  });
});

describe('planBudgets', () => {
  const uneven = fc.array(fc.array(fc.nat(12), { minLength: 2, maxLength: 2 }), { minLength: 1, maxLength: 4 }),
    all = (x: readonly (readonly number[])[]): number => x.flat().reduce((a, b) => a + b, 0);
  test.each(['layer', 'model'] as const)(
    'what heads are too short for goes to others where scores are shared out again, over the %s',
    (reach) => {
      const ada = scoreAllocator('ada', { reach }, ({ budgets }) => ({ budgets }))(),
        policy = compile(compose(last(), ada, topK()));
      fc.assert(
        fc.property(uneven, fc.nat(14), (lengths, budget) => {
          const { budgets } = planBudgets(policy, budget, lengths);
          budgets.forEach((heads, l) =>
            heads.forEach((b, g) => {
              expect(Number.isInteger(b)).toBe(true);
              expect(b).toBeLessThanOrEqual(lengths[l][g]);
              expect(b).toBeGreaterThanOrEqual(Math.min(budget, lengths[l][g]));
            }),
          );
          if (reach === 'model') expect(all(budgets)).toBe(Math.min(2 * lengths.length * budget, all(lengths)));
          else budgets.forEach((heads, l) => expect(all([heads])).toBe(Math.min(2 * budget, all([lengths[l]]))));
        }),
      );
      expect(
        planBudgets(policy, 5, [
          [3, 9],
          [7, 5],
        ]).budgets,
      ).toEqual(
        reach === 'model'
          ? [
              [3, 6],
              [6, 5],
            ]
          : [
              [3, 7],
              [5, 5],
            ],
      );
      expect(
        planBudgets(policy, 5, [
          [3, 3],
          [9, 9],
        ]).budgets,
      ).toEqual(
        reach === 'model'
          ? [
              [3, 3],
              [7, 7],
            ]
          : [
              [3, 3],
              [5, 5],
            ],
      );
    },
  );
  const shift = (by: number): Piece =>
    pieces.pyramidal() &&
    ({
      ...pieces.pyramidal(),
      atoms: [
        {
          ...pieces.pyramidal().atoms[0],
          plan: (p: BudgetPlan) => ({
            ...p,
            budgets: p.budgets.map((h, l) => h.map((b) => b + (l === 0 ? by : -by))),
            notes: [...p.notes, `by ${by}`],
          }),
        },
      ],
    } as Piece);
  test('uniform by default, never above the slots present', () =>
    expect(
      planBudgets(compile(compose(last(), topK())), 5, [
        [3, 9],
        [7, 5],
      ]).budgets,
    ).toEqual([
      [3, 5],
      [5, 5],
    ]));
  test('host allocators chain, in order', () =>
    expect(
      planBudgets(compile((compose as (...p: Piece[]) => Piece)(last(), shift(1), shift(2), topK())), 5, [[9], [9]]),
    ).toMatchObject({ budgets: [[8], [2]], notes: ['by 1', 'by 2'] }));
  test.each([[-1], [2.5], [NaN]])('a budget of %d is an error', (budget) =>
    expect(() => planBudgets(compile(compose(last(), topK())), budget, [[3]])).toThrow(
      `budget: must be a whole number of slots per layer and KV head, at least 0, got ${budget}`,
    ),
  );
  test('an allocator without scores stands before one that reads them', () => {
    const ada = scoreAllocator('ada', {}, ({ budgets }) => ({ budgets }))();
    expect(() => planBudgets(compile(compose(last(), ada, pieces.pyramidal(), topK())), 2, [[4]])).toThrow(
      "compose: 'pyramidal' shares budgets out before scores are read and must stand before 'ada', which reads them",
    );
    expect(planBudgets(compile(compose(last(), pieces.pyramidal(), ada, topK())), 2, [[4]]).budgets).toEqual([[2]]);
  });
  test('compile of what is no piece', () =>
    expect(() => compile(topK as unknown as Piece)).toThrow(
      'policy: expected a piece ({ protocol: 1, atoms, ... }), got the function topK',
    ));
  test('positions is a signal of its own name', () => expect(signalKey(positions)).toBe('positions'));
});

import { describe, expect, test } from 'vitest';
import {
  attentionLast,
  cadence,
  compose,
  freeze,
  hide,
  state,
  view,
  onStep,
  scorer,
  weightScorer,
  wrapSelect,
} from '@kv/core';
import { readCpu } from '@kv/cpu';
import { compile, runEvent } from '@kv/core/engine';
import type { Piece, Tensor, ViewHook } from '@kv/core';
import { topK } from './pieces.ts';
import { at, layer, matrix, ops } from './engine.ts';

const last = weightScorer('last', { needs: [attentionLast] }, ({ attention }) => attention)();
const slots = ops.from({ data: Uint32Array.of(0, 1, 2, 3), shape: [1, 4] });
const signals: Readonly<Record<string, unknown>> = {
  'attention.last': matrix([
    [9, 1, 2, 3],
    [1, 9, 2, 3],
  ]),
  positions: slots,
};
const run = (hook: ViewHook, more: Readonly<Record<string, unknown>> = {}): ReturnType<ViewHook['run']> =>
  hook.run({
    at: at({ queryHeads: 2 }),
    ops,
    draft: { budgets: matrix([[4]]), state: new Map(), checks: [] },
    read: (s) => ({ ...signals, ...more })[s.id] as never,
  });
const mask = (hook: ViewHook, more?: Readonly<Record<string, unknown>>): number[] => [
  ...readCpu(run(hook, more).mask!).data,
];
const onlyView = (piece: Parameters<typeof compile>[0]): ViewHook => compile(piece).hooks('view')[0];

describe('view', () => {
  test('selects per query head and evicts nothing', () => {
    const piece = view(compose(last, topK()), { budget: 2 });
    expect(compile(piece)).toMatchObject({
      evicts: false,
      label: 'view(last ∘ topK,budget=2)',
      steps: [],
    });
    expect(mask(onlyView(piece))).toEqual([1, 0, 0, 1, 0, 1, 0, 1]);
  });
  test('or per KV head, over the mean of its query heads', () =>
    expect(mask(onlyView(view(compose(last, topK()), { budget: 2, rows: 'kv' })))).toEqual([1, 1, 0, 0]));
  test('declares the needs of the policy, and positions', () =>
    expect(onlyView(view(compose(last, topK()), { budget: 2 })).needs.map((s) => s.id)).toEqual([
      'positions',
      'attention.last',
    ]));
  test('a budget above the slots shows all of them', () =>
    expect(mask(onlyView(view(compose(last, topK()), { budget: 9 })))).toEqual([1, 1, 1, 1, 1, 1, 1, 1]));
  test('step hooks of the policy run on', () =>
    expect(
      compile(view(compose(last, topK(), onStep('tick', {}, () => ({}))()), { budget: 2 })).hooks('step'),
    ).toHaveLength(1));
  test('a policy that reaches over the model is an error', () =>
    expect(() =>
      view(
        compose(scorer('wide', { needs: [attentionLast], reach: 'model' }, ({ attention }) => attention)(), topK()),
        { budget: 1 },
      ),
    ).toThrow("view: 'wide ∘ topK' reaches over the whole model, expected a policy of one layer"));
  test('a policy that needs a pass of its own is an error', () => {
    const passing = compose(
      scorer(
        'again',
        { needs: [{ ...attentionLast, provide: () => Promise.reject(new Error('never')) }] },
        ({ attention }) => attention,
      )(),
      topK(),
    );
    expect(() => view(passing, { budget: 1 })).toThrow(
      "view: 'again ∘ topK' needs attention.last, a pass of its own, expected a policy that can select at every decoded token",
    );
  });
  test.each([
    ['hides', hide('hides', { during: 'both' }, () => ({ sinks: 1, from: 2 }))()],
    ['freezes', freeze('freezes', {}, () => ({ sinks: 0, below: 1 }))()],
    ['cadence(every=4)', cadence({ every: 4 })],
    ['view(last ∘ topK,budget=2)', view(compose(last, topK()), { budget: 2 })],
  ])('%s inside is an error, since a view would drop it', (label, hook) => {
    for (const policy of [compose(last, hook, topK()), compose(hook, last, topK())])
      expect(() => view(policy as Piece<'start', 'kept'>, { budget: 2 })).toThrow(
        `view: '${label}' does not choose what a view shows, expected it after the view, got it inside, in '${compile(policy as Piece).label}'`,
      );
    expect(compile(compose(view(compose(last, topK()), { budget: 2 }), hook)).hooks('view').length).toBeGreaterThan(0);
  });
  test.each([0, -1, 1.5])('a budget of %d is an error', (budget) =>
    expect(() => view(compose(last, topK()), { budget })).toThrow('budget must be a positive whole number of slots'),
  );
});

describe('wrapSelect', () => {
  const seen = state('seen', { kind: 'slot', rows: 'query' });
  /** Retrieves in the first row only; the second reuses the state. */
  const half = wrapSelect('half', { needs: [seen] }, ({ ops: o, seen: old, inner }) => {
    const active = matrix([[1], [0]]),
      now = o.where(active, o.mark(inner(active).kept, old), old);
    return { kept: o.select(now, o.reduce('sum', now, 'slots')), state: { seen: now } };
  })();
  const old = {
    'state.seen': matrix([
      [0, 0, 0, 0],
      [0, 1, 1, 0],
    ]),
  };
  test('the selection leaves early where no row is active, and the reused set stays', () => {
    const piece = view(compose(last, topK(), half), { budget: 2 });
    expect(mask(onlyView(piece), old)).toEqual([1, 0, 0, 1, 0, 1, 1, 0]);
  });
  test('its state comes out of the view', () =>
    expect([...run(onlyView(view(compose(last, topK(), half), { budget: 2 })), old).state!.keys()]).toEqual([
      'state.seen',
    ]));
  test('an inactive row keeps nothing of its own', () => {
    let counts: readonly number[] = [];
    const watch = wrapSelect('watch', {}, ({ inner }) => {
      const { kept } = inner(matrix([[1], [0]]));
      counts = [...readCpu(kept).lengths!];
      return { kept };
    })();
    const policy = compile(compose(last, topK(), watch));
    runEvent(policy, [layer(signals, { queryHeads: 2, selectRows: 2 })], ops, { wrap: policy.hooks('wrapSelect')[0] });
    expect(counts).toEqual([2, 0]);
  });
  test('without rows that say otherwise, inner is the policy itself', () => {
    const same = wrapSelect('same', {}, ({ inner }) => ({ kept: inner().kept }))(),
      wrapped = compile(compose(last, topK(), same)),
      l = layer(signals, { queryHeads: 2, selectRows: 2 });
    const numbers = (t: Tensor | undefined): number[] => [...readCpu(t!).data];
    expect(numbers(runEvent(wrapped, [l], ops, { wrap: wrapped.hooks('wrapSelect')[0] })[0].kept)).toEqual(
      numbers(runEvent(compile(compose(last, topK())), [l], ops)[0].kept),
    );
  });
});

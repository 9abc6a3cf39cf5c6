import {
  allocator,
  allocatorBy,
  compose,
  freeze,
  hide,
  kernel,
  normaliser,
  onCompact,
  onStep,
  keys,
  positions,
  scoreAllocator,
  scorer,
  selector,
  scoreTransform,
  state,
  transform,
  unit,
  unitSelector,
  unitTransform,
  values,
  view,
  weightScorer,
  weightAllocator,
  weightSelector,
  weightTransform,
  wrapSelect,
} from '@kv/core';
import type { AnySignal, LayerContext, Ops, Piece, Policy, Scorer, Signal, Tensor } from '@kv/core';
import type { Atom, StepInput, DraftSelection } from '@kv/core';
import { content, counts, slots, spoiltValues } from './faulty-values.ts';
import type { FaultContext, FaultyValue } from './faulty-values.ts';

/** Returns the correct value, or a fault instead. */
export type FaultSupplier = (good: unknown, where: FaultContext) => never;
/** When a piece runs, and what a failure leaves of the sequence. */
export type FailurePoint =
  /** Before anything runs: the sequence is unchanged. */
  | 'policy'
  /** In an event, before anything is compacted: the sequence is unchanged. */
  | 'event'
  /** The same, in an engine that has providers. */
  | 'provider'
  /** The same, in an engine that compacts. */
  | 'compact'
  /** After a token: the sequence becomes unusable. */
  | 'step'
  /** While a token or a prompt is processed: the sequence becomes unusable. */
  | 'decode'
  | 'prefill';
/** A point where a piece gives something to an engine. */
export interface FaultPoint {
  readonly name: string;
  readonly when: FailurePoint;
  readonly takes: 'tensor' | 'anything';
  /** The tensor may have any number of columns. @defaultValue false */
  readonly wide?: boolean;
  /** Faulty numbers for it. @defaultValue none */
  readonly numbers?: readonly FaultyValue[];
  /** Faults that are harmless here, by name, and why. */
  readonly harmless?: Readonly<Record<string, string>>;
  policy(give: FaultSupplier): Policy;
}

const even = ({ ops, at }: FaultContext, rows = at.kvHeads, columns = at.slots): Tensor =>
  ops.from({
    data: Float32Array.from({ length: rows * columns }, (_, i) => 1 + ((i * 7) % columns)),
    shape: [rows, columns],
  });
const zeros = (ops: Ops, shape: readonly number[], dtype?: 'u32'): Tensor =>
  ops.from({ data: new Float32Array(shape.reduce((a, b) => a * b, 1)), shape }, dtype);
const maskOf = ({ ops, at }: FaultContext): Tensor => zeros(ops, [1, at.slots]);
const first = ({ ops, at }: FaultContext, n: number): Tensor =>
  ops.from(
    { data: Uint32Array.from({ length: at.selectRows * n }, (_, i) => i % n), shape: [at.selectRows, n] },
    'u32',
  );

const plain = scorer('plain', {}, (ctx) => even(ctx))();
const weights = weightScorer('weights', {}, (ctx) => even(ctx))();
const topK = selector('topK', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks))();
const byUnits = unitSelector('byUnits', {}, ({ ops, at, budgets, scores }) => ops.select(scores, budgets) ?? at)();
const halves = ({ ops, at }: FaultContext) => ({
  of: ops.from(
    { data: Uint32Array.from({ length: at.slots }, (_, i) => (2 * i < at.slots ? 0 : 1)), shape: [1, at.slots] },
    'u32',
  ),
  count: 2,
});
const cut = unit('cut', {}, (ctx) => ({ units: halves(ctx), scores: even(ctx, 1, 2) }))();
const kept = state('kept', { kind: 'slot', rows: 'kv' });
const inner: Policy = compose(plain, topK);

const MASK = 'anything but 0 marks a slot';
const OWN = 'numbers of a piece are its own: what scores are made of them is checked';
const NOTHING = 'nothing is as good as saying so';
const masks = { NaN: MASK, Infinity: MASK, '-Infinity': MASK, 'a negative number': MASK };
const owned = { NaN: OWN, Infinity: OWN, '-Infinity': OWN, 'a negative number': OWN };
const optional = { undefined: NOTHING };
const LESS = 'a piece may keep less than it may';
const CLAMPED = 'a place that is no whole position stands for the next one that is, and one outside for the nearest';
const places = { Infinity: CLAMPED, '-Infinity': CLAMPED, '-1': CLAMPED, '1.5': CLAMPED };
const EMPTY = 'an empty object changes nothing';

const scoring = (name: string, policy: (give: FaultSupplier) => Policy, atLeast0: boolean): FaultPoint => ({
  name: `${name}, scores`,
  when: 'event',
  takes: 'tensor',
  numbers: atLeast0 ? spoiltValues : content(NaN, Infinity, -Infinity),
  policy,
});
const budgets = (name: string, policy: (give: FaultSupplier) => Policy): FaultPoint => ({
  name: `${name}, budgets`,
  when: 'event',
  takes: 'tensor',
  numbers: [...spoiltValues, ...content(1.5, 1e9)],
  harmless: optional,
  policy,
});
const keeping = (name: string, policy: (give: FaultSupplier) => Policy): FaultPoint => ({
  name: `${name}, kept slots`,
  when: 'event',
  takes: 'tensor',
  wide: true,
  numbers: slots,
  harmless: { 'no slots': LESS },
  policy,
});

/** Returns a policy with a step written without our declarations. */
function raw(change: (draft: DraftSelection, where: FaultContext) => unknown): Policy {
  const atoms = plain.atoms.map((atom): Atom => {
    if (atom.at !== 'event') return atom;
    const run = (cells: readonly StepInput[]): readonly DraftSelection[] =>
      atom.run(cells).map((draft, i) => change(draft, cells[i]) as DraftSelection);
    return { ...atom, name: 'hostile', label: 'hostile', run };
  });
  return compose({ ...plain, name: 'hostile', label: 'hostile', atoms } as Scorer, topK);
}
/** Returns a policy with one atom changed. */
function malformed(field: string, give: FaultSupplier): Policy {
  const [atom, ...rest] = inner.atoms;
  return {
    ...inner,
    atoms: [{ ...atom, [field]: give(atom[field as 'name'], {} as FaultContext) }, ...rest],
  } as Policy;
}

/** Every point where a piece or hook of any kind gives something. */
export const givers: readonly FaultPoint[] = [
  scoring('scorer', (give) => compose(scorer('hostile', {}, (ctx) => give(even(ctx), ctx))(), topK), false),
  scoring('weightScorer', (give) => compose(weightScorer('hostile', {}, (ctx) => give(even(ctx), ctx))(), topK), true),
  scoring(
    'transform',
    (give) => compose(plain, transform('hostile', {}, (ctx) => give(even(ctx), ctx))(), topK),
    false,
  ),
  scoring(
    'scoreTransform',
    (give) => compose(plain, scoreTransform('hostile', {}, (ctx) => give(even(ctx), ctx))(), topK),
    false,
  ),
  scoring(
    'normaliser',
    (give) => compose(plain, normaliser('hostile', {}, (ctx) => give(even(ctx), ctx))(), topK),
    true,
  ),
  scoring(
    'weight transform',
    (give) => compose(weights, weightTransform('hostile', {}, (ctx) => give(even(ctx), ctx))(), topK),
    true,
  ),
  ...(['forced', 'banned'] as const).map(
    (mask): FaultPoint => ({
      name: `scorer, ${mask} slots`,
      when: 'event',
      takes: 'tensor',
      numbers: spoiltValues,
      harmless: { ...optional, null: NOTHING, ...masks },
      policy: (give) =>
        compose(scorer('hostile', {}, (ctx) => ({ scores: even(ctx), [mask]: give(maskOf(ctx), ctx) }))(), topK),
    }),
  ),
  {
    name: 'scorer, a state',
    when: 'event',
    takes: 'tensor',
    numbers: spoiltValues,
    harmless: owned,
    policy: (give) =>
      compose(
        scorer('hostile', { needs: [kept] }, (ctx) => ({ scores: even(ctx), state: { kept: give(even(ctx), ctx) } }))(),
        topK,
      ),
  },
  {
    name: 'scorer, all states',
    when: 'event',
    takes: 'anything',
    harmless: { ...optional, 'an empty object': EMPTY, 'an empty array': EMPTY },
    policy: (give) =>
      compose(
        scorer('hostile', { needs: [kept] }, (ctx) => ({ scores: even(ctx), state: give({ kept: even(ctx) }, ctx) }))(),
        topK,
      ),
  },
  {
    name: 'scorer, a floor',
    when: 'event',
    takes: 'anything',
    numbers: counts,
    harmless: { ...optional, null: NOTHING, 'a number': 'it is one' },
    policy: (give) =>
      compose(scorer('hostile', { minSlots: () => give(0, {} as FaultContext) }, (ctx) => even(ctx))(), topK),
  },
  {
    name: 'unit, units of slots',
    when: 'event',
    takes: 'tensor',
    numbers: content(2),
    policy: (give) =>
      compose(
        plain,
        unit('hostile', {}, (ctx) => ({
          units: { ...halves(ctx), of: give(halves(ctx).of, ctx) },
          scores: even(ctx, 1, 2),
        }))(),
        byUnits,
      ),
  },
  {
    name: 'unit, how many units',
    when: 'event',
    takes: 'anything',
    numbers: counts,
    policy: (give) =>
      compose(
        plain,
        unit('hostile', {}, (ctx) => ({ units: { ...halves(ctx), count: give(2, ctx) }, scores: even(ctx, 1, 2) }))(),
        byUnits,
      ),
  },
  {
    name: 'unit, units',
    when: 'event',
    takes: 'anything',
    policy: (give) =>
      compose(
        plain,
        unit('hostile', {}, (ctx) => ({ units: give(halves(ctx), ctx), scores: even(ctx, 1, 2) }))(),
        byUnits,
      ),
  },
  {
    name: 'unit, scores of units',
    when: 'event',
    takes: 'tensor',
    numbers: content(NaN, Infinity, -Infinity),
    policy: (give) =>
      compose(
        plain,
        unit('hostile', {}, (ctx) => ({ units: halves(ctx), scores: give(even(ctx, 1, 2), ctx) }))(),
        byUnits,
      ),
  },
  {
    name: 'unit transform, scores of units',
    when: 'event',
    takes: 'tensor',
    numbers: content(NaN, Infinity, -Infinity),
    policy: (give) => compose(plain, cut, unitTransform('hostile', {}, (ctx) => give(even(ctx, 1, 2), ctx))(), byUnits),
  },
  budgets('score allocator', (give) =>
    compose(plain, scoreAllocator('hostile', {}, (ctx) => ({ budgets: give(ctx.budgets, ctx) }))(), topK),
  ),
  budgets('weight allocator', (give) =>
    compose(weights, weightAllocator('hostile', {}, (ctx) => ({ budgets: give(ctx.budgets, ctx) }))(), topK),
  ),
  budgets('allocator by a scorer', (give) =>
    compose(plain, allocatorBy('hostile', {}, (ctx) => ({ budgets: give(ctx.budgets, ctx) }))(plain), topK),
  ),
  {
    name: 'score allocator, all that it leaves',
    when: 'event',
    takes: 'anything',
    harmless: { 'an empty object': EMPTY },
    policy: (give) =>
      compose(plain, scoreAllocator('hostile', {}, (ctx) => give({ budgets: ctx.budgets }, ctx))(), topK),
  },
  {
    name: 'allocator, a plan',
    when: 'event',
    takes: 'anything',
    policy: (give) => compose(plain, allocator('hostile', {}, (plan) => give(plan, {} as FaultContext))(), topK),
  },
  {
    name: 'allocator, a budget',
    when: 'event',
    takes: 'anything',
    numbers: [...counts, { name: '1e9', of: () => 1e9 }],
    policy: (give) =>
      compose(
        plain,
        allocator('hostile', {}, ({ budgets: [[, ...heads], ...rest], ...plan }) => ({
          ...plan,
          budgets: [[give(1, {} as FaultContext), ...heads], ...rest],
        }))(),
        topK,
      ),
  },
  {
    name: 'allocator, budgets of a layer',
    when: 'event',
    takes: 'anything',
    policy: (give) =>
      compose(
        plain,
        allocator('hostile', {}, ({ budgets: [layer, ...rest], ...plan }) => ({
          ...plan,
          budgets: [give(layer, {} as FaultContext), ...rest],
        }))(),
        topK,
      ),
  },
  {
    name: 'allocator, notes',
    when: 'event',
    takes: 'anything',
    harmless: { ...optional, 'an empty array': NOTHING },
    policy: (give) =>
      compose(plain, allocator('hostile', {}, (plan) => ({ ...plan, notes: give([], {} as FaultContext) }))(), topK),
  },
  keeping('selector', (give) =>
    compose(plain, selector('hostile', {}, (ctx) => give(first(ctx, ctx.at.budget), ctx))()),
  ),
  keeping('weight selector', (give) =>
    compose(weights, weightSelector('hostile', {}, (ctx) => give(first(ctx, ctx.at.budget), ctx))()),
  ),
  keeping('unit selector', (give) =>
    compose(plain, cut, unitSelector('hostile', {}, (ctx) => give(first(ctx, ctx.at.budget), ctx))()),
  ),
  ...(
    [
      ['keys', keys],
      ['values', values],
    ] as const
  ).map(
    ([name, signal]): FaultPoint => ({
      name: `compaction, ${name}`,
      when: 'compact',
      takes: 'tensor',
      numbers: spoiltValues,
      harmless: { ...optional, 'a negative number': 'keys and values may be negative' },
      policy: (give) =>
        compose(
          inner,
          onCompact('hostile', { needs: [signal] }, (ctx) => ({
            [name]: give(ctx.ops.mul((ctx as unknown as Record<string, Tensor>)[signal.as], 1), ctx),
          }))(),
        ),
    }),
  ),
  {
    name: 'compaction, all that it leaves',
    when: 'compact',
    takes: 'anything',
    harmless: { 'an empty object': EMPTY },
    policy: (give) => compose(inner, onCompact('hostile', {}, (ctx) => give({}, ctx))()),
  },
  {
    name: 'view, a mask',
    when: 'decode',
    takes: 'tensor',
    numbers: spoiltValues,
    harmless: { ...optional, ...masks },
    policy: (give) => hide('hostile', { during: 'decode' }, (ctx) => ({ mask: give(even(ctx), ctx) }))() as Policy,
  },
  {
    name: 'view, sinks',
    when: 'decode',
    takes: 'anything',
    numbers: counts,
    harmless: { ...optional, ...places, 'a number': 'it is one' },
    policy: (give) =>
      hide('hostile', { during: 'decode' }, (ctx) => ({ sinks: give(1, ctx), lower: () => 2 }))() as Policy,
  },
  {
    name: 'view, the first visible position',
    when: 'decode',
    takes: 'anything',
    numbers: counts,
    harmless: { ...places, 'a number': 'it is one' },
    policy: (give) => hide('hostile', { during: 'decode' }, (ctx) => ({ lower: () => give(2, ctx) }))() as Policy,
  },
  {
    name: 'view, a function of positions',
    when: 'decode',
    takes: 'anything',
    harmless: optional,
    policy: (give) => hide('hostile', { during: 'decode' }, (ctx) => ({ lower: give(() => 2, ctx) }))() as Policy,
  },
  {
    name: 'view, states',
    when: 'decode',
    takes: 'anything',
    harmless: optional,
    policy: (give) => hide('hostile', { during: 'decode' }, (ctx) => ({ state: give(new Map(), ctx) }))() as Policy,
  },
  {
    name: 'view, what it chose by',
    when: 'decode',
    takes: 'anything',
    harmless: optional,
    policy: (give) =>
      hide('hostile', { during: 'decode' }, (ctx) => ({ chosen: give({ scores: even(ctx) }, ctx) }))() as Policy,
  },
  {
    name: 'view, all that it leaves',
    when: 'decode',
    takes: 'anything',
    harmless: { 'an empty object': EMPTY, 'an empty array': EMPTY, 'a typed array': EMPTY },
    policy: (give) => hide('hostile', { during: 'decode' }, (ctx) => give({}, ctx))() as Policy,
  },
  {
    name: 'view of a policy, scores',
    when: 'decode',
    takes: 'tensor',
    numbers: content(NaN, Infinity, -Infinity),
    policy: (give) =>
      view(compose(scorer('hostile', {}, (ctx) => give(even(ctx), ctx))(), topK), { budget: 2 }) as Policy,
  },
  {
    name: 'view of a policy, kept slots',
    when: 'decode',
    takes: 'tensor',
    wide: true,
    policy: (give) =>
      view(compose(plain, selector('hostile', {}, (ctx) => give(first(ctx, 2), ctx))()), { budget: 2 }) as Policy,
  },
  {
    name: 'wrapped selection, kept slots',
    when: 'decode',
    takes: 'tensor',
    wide: true,
    policy: (give) =>
      view(compose(inner, wrapSelect('hostile', {}, (ctx) => ({ kept: give(first(ctx, 2), ctx) }))()), {
        budget: 2,
        rows: 'kv',
      }) as Policy,
  },
  {
    name: 'wrapped selection, states',
    when: 'decode',
    takes: 'anything',
    harmless: { ...optional, 'an empty object': EMPTY, 'an empty array': EMPTY },
    policy: (give) =>
      view(compose(inner, wrapSelect('hostile', {}, (ctx) => ({ kept: first(ctx, 2), state: give({}, ctx) }))()), {
        budget: 2,
        rows: 'kv',
      }) as Policy,
  },
  {
    name: 'wrapped selection, all that it leaves',
    when: 'decode',
    takes: 'anything',
    policy: (give) =>
      view(compose(inner, wrapSelect('hostile', {}, (ctx) => give({ kept: first(ctx, 2) }, ctx))()), {
        budget: 2,
        rows: 'kv',
      }) as Policy,
  },
  ...(['sinks', 'below'] as const).map(
    (name): FaultPoint => ({
      name: `freeze, ${name}`,
      when: 'prefill',
      takes: 'anything',
      numbers: counts,
      harmless: { ...places, 'a number': 'it is one' },
      policy: (give) =>
        freeze('hostile', {}, (at) => ({ sinks: 1, below: 2, [name]: give(2, { at } as FaultContext) }))() as Policy,
    }),
  ),
  {
    name: 'freeze, all that it leaves',
    when: 'prefill',
    takes: 'anything',
    policy: (give) => freeze('hostile', {}, (at) => give({ sinks: 1, below: 2 }, { at } as FaultContext))() as Policy,
  },
  {
    name: 'step hook, a state',
    when: 'step',
    takes: 'tensor',
    numbers: spoiltValues,
    harmless: owned,
    policy: (give) => {
      const after = onStep('hostile', { needs: [kept] }, (ctx) => ({ kept: give(even(ctx), ctx) }));
      return compose(plain, topK, after()) as Policy;
    },
  },
  {
    name: 'step hook, all states',
    when: 'step',
    takes: 'anything',
    harmless: { ...optional, 'an empty object': EMPTY, 'an empty array': EMPTY },
    policy: (give) =>
      compose(plain, topK, onStep('hostile', { needs: [kept] }, (ctx) => give({ kept: even(ctx) }, ctx))()) as Policy,
  },
  {
    name: 'provider, a value',
    when: 'provider',
    takes: 'anything',
    harmless: {
      'a number': 'a provider may give anything: the piece that reads it is asked',
      'a string': 'the same',
      true: 'the same',
      'an empty array': 'the same',
      'an empty object': 'the same',
      'a function': 'the same',
      'a typed array': 'the same',
      'a promise': 'engines wait for providers',
    },
    policy: (give) => {
      const signal: Signal<'given'> = {
        id: 'hostile',
        as: 'given',
        cost: 'pass',
        provide: async (_, layer) => give(5, { at: { layer, layers: 2 } as LayerContext } as FaultContext),
      };
      return compose(scorer('plain', { needs: [signal] }, (ctx) => even(ctx))(), topK);
    },
  },
  {
    name: 'step by hand, a draft',
    when: 'event',
    takes: 'anything',
    policy: (give) => raw((draft, where) => give(draft, where)),
  },
  {
    name: 'step by hand, checks of its own',
    when: 'event',
    takes: 'anything',
    harmless: { 'an empty array': NOTHING },
    policy: (give) => raw(({ checks, ...draft }, where) => ({ ...draft, checks: give(checks, where) })),
  },
  {
    name: 'step by hand, states',
    when: 'event',
    takes: 'anything',
    policy: (give) => raw(({ state: all, ...draft }, where) => ({ ...draft, state: give(all, where) })),
  },
  ...['at', 'name', 'label', 'needs', 'kind', 'reach', 'minSlots', 'run'].map(
    (field): FaultPoint => ({
      name: `an atom, its ${field}`,
      when: 'policy',
      takes: 'anything',
      harmless: {
        ...(field === 'name' || field === 'label' ? { 'a string': 'it is one' } : {}),
        ...(field === 'needs' ? { 'an empty array': 'it reads nothing' } : {}),
        ...(field === 'minSlots' ? optional : {}),
      },
      policy: (give) => malformed(field, give),
    }),
  ),
  {
    name: 'a policy, its atoms',
    when: 'policy',
    takes: 'anything',
    policy: (give) => ({ ...inner, atoms: give(inner.atoms, {} as FaultContext) }) as Policy,
  },
  {
    name: 'a policy',
    when: 'policy',
    takes: 'anything',
    policy: (give) => give(inner, {} as FaultContext) as Policy,
  },
];
/** Pieces that write to objects that are read-only. */
export const changes: readonly (readonly [name: string, policy: () => Policy])[] = [
  ['the scores of a draft', () => raw((draft) => Object.assign(draft, { scores: undefined }))],
  [
    'the states of a draft',
    () =>
      raw((draft, { ops }) => ({
        ...draft,
        state: draft.state instanceof Map && draft.state.set('junk', zeros(ops, [1, 1])),
      })),
  ],
  ['a draft that it is given', () => changing((cell) => Object.assign(cell.draft, { budgets: undefined }))],
  [
    'the states of a draft that it is given',
    () => changing((cell) => (cell.draft.state as Map<string, unknown>).set('junk', 5)),
  ],
  ['the checks of a draft that it is given', () => changing((cell) => (cell.draft.checks as unknown[]).push({}))],
  [
    'the budgets of a plan',
    () =>
      compose(
        plain,
        allocator('hostile', {}, (plan) => {
          (plan.budgets[0] as number[])[0] = 1e9;
          return plan;
        })(),
        topK,
      ),
  ],
  [
    'the lengths of a plan',
    () =>
      compose(
        plain,
        allocator('hostile', {}, (plan) => {
          (plan.lengths[0] as number[])[0] = 1e9;
          return plan;
        })(),
        topK,
      ),
  ],
];

/** Spoils the numbers of a tensor on the host. */
function spoil<T>(x: T): T {
  try {
    (x as { readonly data?: Float32Array }).data?.fill(0.125);
  } catch {
    // not to be inspected
  }
  return x;
}
/** A kernel whose reference writes to its input. */
const spoiling = kernel({
  id: 'hostile-kernel',
  inputs: { x: 'f32' },
  output: { shape: ({ x }) => [x[0], x[1]] },
  wgsl: /* wgsl */ `
fn run(index: u32) { output[index] = x[index * x_shape.z]; }`,
  ref({ x }, _, out) {
    x.data.fill(0.125);
    out.fill(1);
  },
});
const spoils = (signal: AnySignal): (() => Policy) => {
  const piece = scorer('hostile', { needs: [signal] }, (ctx) => {
    spoil((ctx as unknown as Record<string, Tensor>)[signal.as]);
    return even(ctx);
  });
  return () => compose(piece(), topK);
};
/** Pieces that write to their input tensors, if those are on the host. */
export const overwrites: readonly (readonly [name: string, when: FailurePoint, policy: () => Policy])[] = [
  ['keys', 'event', spoils(keys)],
  ['values', 'event', spoils(values)],
  ['positions', 'event', spoils(positions)],
  ['a state', 'event', spoils(kept)],
  [
    'keys, and throws',
    'event',
    () =>
      compose(
        scorer('hostile', { needs: [keys] }, (ctx) => {
          spoil(ctx.keys);
          if (Object.hasOwn(ctx.keys, 'data')) throw new Error('enough'); // otherwise nothing was written
          return even(ctx);
        })(),
        topK,
      ),
  ],
  [
    'keys, by a kernel',
    'event',
    () => compose(scorer('hostile', { needs: [keys] }, ({ ops, keys: x }) => ops.kernel(spoiling, { x }))(), topK),
  ],
  [
    'scores',
    'event',
    () => compose(plain, transform('hostile', {}, (ctx) => ctx.ops.mul(spoil(ctx.scores), 1))(), topK),
  ],
  [
    'budgets',
    'event',
    () => compose(plain, scoreAllocator('hostile', {}, (ctx) => ({ budgets: spoil(ctx.budgets) }))(), topK),
  ],
  [
    'values, at a compaction',
    'compact',
    () =>
      compose(
        inner,
        onCompact('hostile', { needs: [values] }, (ctx) => {
          spoil(ctx.values);
          return {};
        })(),
      ),
  ],
  [
    'keys, in a view',
    'decode',
    () =>
      hide('hostile', { during: 'decode', needs: [keys] }, (ctx) => {
        spoil(ctx.keys);
        return {};
      })() as Policy,
  ],
  [
    'keys, in a wrapped selection',
    'decode',
    () =>
      view(
        compose(
          inner,
          wrapSelect('hostile', { needs: [keys] }, (ctx) => {
            spoil(ctx.keys);
            return { kept: first(ctx, 2) };
          })(),
        ),
        { budget: 2, rows: 'kv' },
      ) as Policy,
  ],
  [
    'a state, in a step hook',
    'step',
    () =>
      compose(
        plain,
        topK,
        onStep('hostile', { needs: [kept] }, (ctx) => {
          spoil(ctx.kept);
          return {};
        })(),
      ) as Policy,
  ],
];
function changing(change: (cell: StepInput) => unknown): Policy {
  const shape: Piece = plain;
  const atoms = shape.atoms.map(
    (atom): Atom =>
      atom.at === 'event'
        ? {
            ...atom,
            name: 'hostile',
            label: 'hostile',
            run: (cells: readonly StepInput[]): readonly DraftSelection[] => {
              cells.forEach(change);
              return atom.run(cells);
            },
          }
        : atom,
  );
  return compose({ ...plain, name: 'hostile', label: 'hostile', atoms } as Scorer, topK);
}

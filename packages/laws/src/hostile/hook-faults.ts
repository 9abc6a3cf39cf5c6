import {
  biases,
  compose,
  freeze,
  hide,
  keys,
  onCompact,
  onStep,
  scorer,
  selector,
  values,
  view,
  wrapSelect,
} from '@kv/core';
import type { Policy, Tensor } from '@kv/core';
import { even, first, inner, kept, plain, topK } from './correct-pieces.ts';
import type { FaultPoint } from './fault-point.ts';
import { content, counts, spoiltValues } from './faulty-values.ts';
import type { FaultContext } from './faulty-values.ts';
import { EMPTY, masks, optional, owned, places } from './harmless.ts';

/** Points where compaction, views, freezing and step hooks give something. */
export const hookFaults: readonly FaultPoint[] = [
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
      policy: (supply) =>
        compose(
          inner,
          onCompact('hostile', { needs: [signal] }, (ctx) => ({
            [name]: supply(ctx.ops.mul((ctx as unknown as Record<string, Tensor>)[signal.as], 1), ctx),
          }))(),
        ),
    }),
  ),
  {
    name: 'compaction, biases',
    when: 'compact',
    takes: 'tensor',
    numbers: spoiltValues,
    harmless: { ...optional, 'a negative number': 'biases may be negative' },
    policy: (supply) =>
      compose(
        inner,
        onCompact('hostile', { needs: [biases], biases: () => true }, (ctx) => ({
          biases: supply(ctx.ops.mul(ctx.biases, 1), ctx),
        }))(),
      ),
  },
  {
    name: 'compaction, its whole result',
    when: 'compact',
    takes: 'anything',
    harmless: { 'an empty object': EMPTY },
    policy: (supply) => compose(inner, onCompact('hostile', {}, (ctx) => supply({}, ctx))()),
  },
  {
    name: 'view, a mask',
    when: 'decode',
    takes: 'tensor',
    numbers: spoiltValues,
    harmless: { ...optional, ...masks },
    policy: (supply) => hide('hostile', { during: 'decode' }, (ctx) => ({ mask: supply(even(ctx), ctx) }))() as Policy,
  },
  {
    name: 'view, sinks',
    when: 'decode',
    takes: 'anything',
    numbers: counts,
    harmless: { ...optional, ...places, 'a number': 'it is a valid value' },
    policy: (supply) =>
      hide('hostile', { during: 'decode' }, (ctx) => ({ sinks: supply(1, ctx), lower: () => 2 }))() as Policy,
  },
  {
    name: 'view, the first visible position',
    when: 'decode',
    takes: 'anything',
    numbers: counts,
    harmless: { ...places, 'a number': 'it is a valid value' },
    policy: (supply) => hide('hostile', { during: 'decode' }, (ctx) => ({ lower: () => supply(2, ctx) }))() as Policy,
  },
  {
    name: 'view, a function of positions',
    when: 'decode',
    takes: 'anything',
    harmless: optional,
    policy: (supply) => hide('hostile', { during: 'decode' }, (ctx) => ({ lower: supply(() => 2, ctx) }))() as Policy,
  },
  {
    name: 'view, states',
    when: 'decode',
    takes: 'anything',
    harmless: optional,
    policy: (supply) => hide('hostile', { during: 'decode' }, (ctx) => ({ state: supply(new Map(), ctx) }))() as Policy,
  },
  {
    name: 'view, the scores that it reports',
    when: 'decode',
    takes: 'anything',
    harmless: optional,
    policy: (supply) =>
      hide('hostile', { during: 'decode' }, (ctx) => ({ chosen: supply({ scores: even(ctx) }, ctx) }))() as Policy,
  },
  {
    name: 'view, its whole result',
    when: 'decode',
    takes: 'anything',
    harmless: { 'an empty object': EMPTY, 'an empty array': EMPTY, 'a typed array': EMPTY },
    policy: (supply) => hide('hostile', { during: 'decode' }, (ctx) => supply({}, ctx))() as Policy,
  },
  {
    name: 'view of a policy, scores',
    when: 'decode',
    takes: 'tensor',
    numbers: content(NaN, Infinity, -Infinity),
    policy: (supply) =>
      view(compose(scorer('hostile', {}, (ctx) => supply(even(ctx), ctx))(), topK), { budget: 2 }) as Policy,
  },
  {
    name: 'view of a policy, kept slots',
    when: 'decode',
    takes: 'tensor',
    wide: true,
    policy: (supply) =>
      view(compose(plain, selector('hostile', {}, (ctx) => supply(first(ctx, 2), ctx))()), { budget: 2 }) as Policy,
  },
  {
    name: 'wrapped selection, kept slots',
    when: 'decode',
    takes: 'tensor',
    wide: true,
    policy: (supply) =>
      view(compose(inner, wrapSelect('hostile', {}, (ctx) => ({ kept: supply(first(ctx, 2), ctx) }))()), {
        budget: 2,
        rows: 'kv',
      }) as Policy,
  },
  {
    name: 'wrapped selection, states',
    when: 'decode',
    takes: 'anything',
    harmless: { ...optional, 'an empty object': EMPTY, 'an empty array': EMPTY },
    policy: (supply) =>
      view(compose(inner, wrapSelect('hostile', {}, (ctx) => ({ kept: first(ctx, 2), state: supply({}, ctx) }))()), {
        budget: 2,
        rows: 'kv',
      }) as Policy,
  },
  {
    name: 'wrapped selection, its whole result',
    when: 'decode',
    takes: 'anything',
    policy: (supply) =>
      view(compose(inner, wrapSelect('hostile', {}, (ctx) => supply({ kept: first(ctx, 2) }, ctx))()), {
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
      harmless: { ...places, 'a number': 'it is a valid value' },
      policy: (supply) =>
        freeze('hostile', {}, (at) => ({ sinks: 1, below: 2, [name]: supply(2, { at } as FaultContext) }))() as Policy,
    }),
  ),
  {
    name: 'freeze, its whole result',
    when: 'prefill',
    takes: 'anything',
    policy: (supply) =>
      freeze('hostile', {}, (at) => supply({ sinks: 1, below: 2 }, { at } as FaultContext))() as Policy,
  },
  {
    name: 'step hook, a state',
    when: 'step',
    takes: 'tensor',
    numbers: spoiltValues,
    harmless: owned,
    policy: (supply) => {
      const after = onStep('hostile', { needs: [kept] }, (ctx) => ({ kept: supply(even(ctx), ctx) }));
      return compose(plain, topK, after()) as Policy;
    },
  },
  {
    name: 'step hook, all states',
    when: 'step',
    takes: 'anything',
    harmless: { ...optional, 'an empty object': EMPTY, 'an empty array': EMPTY },
    policy: (supply) =>
      compose(plain, topK, onStep('hostile', { needs: [kept] }, (ctx) => supply({ kept: even(ctx) }, ctx))()) as Policy,
  },
];

import {
  compose,
  normaliser,
  scoreTransform,
  scorer,
  transform,
  unit,
  unitTransform,
  weightScorer,
  weightTransform,
} from '@kv/core';
import type { Policy } from '@kv/core';
import { byUnits, cut, even, halves, kept, maskOf, plain, topK, weights } from './correct-pieces.ts';
import type { FaultPoint, FaultSupplier } from './fault-point.ts';
import { content, counts, spoiltValues } from './faulty-values.ts';
import type { FaultContext } from './faulty-values.ts';
import { EMPTY, NOTHING, masks, optional, owned } from './harmless.ts';

const scoring = (name: string, policy: (supply: FaultSupplier) => Policy, atLeast0: boolean): FaultPoint => ({
  name: `${name}, scores`,
  when: 'event',
  takes: 'tensor',
  numbers: atLeast0 ? spoiltValues : content(NaN, Infinity, -Infinity),
  policy,
});
/** Points where scorers, transforms and units give something. */
export const scoreFaults: readonly FaultPoint[] = [
  scoring('scorer', (supply) => compose(scorer('hostile', {}, (ctx) => supply(even(ctx), ctx))(), topK), false),
  scoring(
    'weightScorer',
    (supply) => compose(weightScorer('hostile', {}, (ctx) => supply(even(ctx), ctx))(), topK),
    true,
  ),
  scoring(
    'transform',
    (supply) => compose(plain, transform('hostile', {}, (ctx) => supply(even(ctx), ctx))(), topK),
    false,
  ),
  scoring(
    'scoreTransform',
    (supply) => compose(plain, scoreTransform('hostile', {}, (ctx) => supply(even(ctx), ctx))(), topK),
    false,
  ),
  scoring(
    'normaliser',
    (supply) => compose(plain, normaliser('hostile', {}, (ctx) => supply(even(ctx), ctx))(), topK),
    true,
  ),
  scoring(
    'weight transform',
    (supply) => compose(weights, weightTransform('hostile', {}, (ctx) => supply(even(ctx), ctx))(), topK),
    true,
  ),
  ...(['forced', 'banned'] as const).map(
    (mask): FaultPoint => ({
      name: `scorer, ${mask} slots`,
      when: 'event',
      takes: 'tensor',
      numbers: spoiltValues,
      harmless: { ...optional, null: NOTHING, ...masks },
      policy: (supply) =>
        compose(scorer('hostile', {}, (ctx) => ({ scores: even(ctx), [mask]: supply(maskOf(ctx), ctx) }))(), topK),
    }),
  ),
  {
    name: 'scorer, a state',
    when: 'event',
    takes: 'tensor',
    numbers: spoiltValues,
    harmless: owned,
    policy: (supply) =>
      compose(
        scorer('hostile', { needs: [kept] }, (ctx) => ({
          scores: even(ctx),
          state: { kept: supply(even(ctx), ctx) },
        }))(),
        topK,
      ),
  },
  {
    name: 'scorer, all states',
    when: 'event',
    takes: 'anything',
    harmless: { ...optional, 'an empty object': EMPTY, 'an empty array': EMPTY },
    policy: (supply) =>
      compose(
        scorer('hostile', { needs: [kept] }, (ctx) => ({
          scores: even(ctx),
          state: supply({ kept: even(ctx) }, ctx),
        }))(),
        topK,
      ),
  },
  {
    name: 'scorer, minimum slots',
    when: 'event',
    takes: 'anything',
    numbers: counts,
    harmless: { ...optional, null: NOTHING, 'a number': 'it is a valid value' },
    policy: (supply) =>
      compose(scorer('hostile', { minSlots: () => supply(0, {} as FaultContext) }, (ctx) => even(ctx))(), topK),
  },
  {
    name: 'unit, units of slots',
    when: 'event',
    takes: 'tensor',
    numbers: content(2),
    policy: (supply) =>
      compose(
        plain,
        unit('hostile', {}, (ctx) => ({
          units: { ...halves(ctx), of: supply(halves(ctx).of, ctx) },
          scores: even(ctx, 1, 2),
        }))(),
        byUnits,
      ),
  },
  {
    name: 'unit, number of units',
    when: 'event',
    takes: 'anything',
    numbers: counts,
    policy: (supply) =>
      compose(
        plain,
        unit('hostile', {}, (ctx) => ({ units: { ...halves(ctx), count: supply(2, ctx) }, scores: even(ctx, 1, 2) }))(),
        byUnits,
      ),
  },
  {
    name: 'unit, units',
    when: 'event',
    takes: 'anything',
    policy: (supply) =>
      compose(
        plain,
        unit('hostile', {}, (ctx) => ({ units: supply(halves(ctx), ctx), scores: even(ctx, 1, 2) }))(),
        byUnits,
      ),
  },
  {
    name: 'unit, scores of units',
    when: 'event',
    takes: 'tensor',
    numbers: content(NaN, Infinity, -Infinity),
    policy: (supply) =>
      compose(
        plain,
        unit('hostile', {}, (ctx) => ({ units: halves(ctx), scores: supply(even(ctx, 1, 2), ctx) }))(),
        byUnits,
      ),
  },
  {
    name: 'unit transform, scores of units',
    when: 'event',
    takes: 'tensor',
    numbers: content(NaN, Infinity, -Infinity),
    policy: (supply) =>
      compose(plain, cut, unitTransform('hostile', {}, (ctx) => supply(even(ctx, 1, 2), ctx))(), byUnits),
  },
];

import { Tensor } from '@huggingface/transformers';
import { compose, positions, scorer, selector, state, values } from '@kv/core';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { demandsOf } from '../src/demands.ts';
import { afterEvent } from '../src/event.ts';
import type { Record } from '../src/record.ts';

const shape = {
  layers: 2,
  queryHeads: 2,
  kvHeads: 2,
  headDim: 1,
  type: 'float32',
  fromMask: false,
  scale: 1,
};
const known = state('known', { kind: 'slot', rows: 'kv' }),
  large = scorer('large', { needs: [values, positions, known] }, ({ ops, values: v, positions: p }) => ({
    scores: ops.norm(v),
    state: { known: ops.add(p, 1) },
  })),
  upTo = selector('upTo', {}, ({ ops, scores, budgets, ...masks }) =>
    ops.select(scores, ops.min(budgets, ops.add(1, ops.count(ops.atLeast(scores, 0.5)))), masks),
  ),
  policy = compose(large(), upTo());

test('state stays with its slot where a head keeps dropped slots too, as others keep more', () =>
  fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 6 }),
      fc.array(fc.float({ noNaN: true, min: 0, max: 1 }), { minLength: 28, maxLength: 28 }),
      async (budget, numbers) => {
        const slots = 7,
          layer = (l: number): Record['layers'][number] => {
            const data = Float32Array.from(numbers.slice(l * 14, (l + 1) * 14)),
              cache = new Tensor('float32', data, [1, 2, slots, 1]);
            return {
              key: cache,
              value: cache,
              positions: [1, 2].map((by) => Uint32Array.from({ length: slots }, (_, i) => i * by)),
            };
          },
          record: Record = {
            ids: new Array<number>(14).fill(0),
            layers: [layer(0), layer(1)],
            slots,
            budget: { slots: budget },
            promptLength: 14,
            step: 0,
            state: new Map(),
            events: 0,
            notes: [],
          },
          demands = demandsOf(policy, budget, shape, { queries: false, text: false }),
          after = await afterEvent(record, { policy, demands, shape, rope: undefined, backend: undefined });
        for (const [l, { positions: kept }] of after.layers.entries())
          expect(after.state.get(`state.known ${l}`)).toMatchObject({
            shape: [2, after.slots],
            data: Float32Array.from(kept.flatMap((row) => Array.from(row, (p) => p + 1))),
          });
      },
    ),
  ));

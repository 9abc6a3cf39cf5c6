import { kernel, unit as makeUnit } from '@kv/core';
import type { Kernel, Tensor, Unit, Units } from '@kv/core';
import { unit } from '../../src/unit.ts';
import { field, memory, peek } from './field.ts';
import type { Field } from './field.ts';

const ids = (id: string, of: (slot: number, slots: number) => number) =>
  kernel({
    id,
    inputs: { x: 'f32' },
    ragged: 'x',
    per: 'element',
    wgsl: '',
    output: { dtype: 'u32', shape: ({ x }) => x },
    ref: ({ x }, _, out) => {
      const n = x.shape[1];
      for (let i = 0; i < out.length; i++) out[i] = of(i % n, n);
    },
  });
const half = (n: number): number => Math.ceil(n / 2);
const pairs = ids('pairs', (i) => i >> 1),
  turns = ids('turns', (i) => i % 2),
  down = ids('down', (i, n) => half(n) - 1 - (i >> 1)),
  late = ids('late', (i) => (i >> 1) + 1);
type Change = (x: { units: Units; scores: Tensor }, scores: Tensor) => { units: Units; scores: Tensor };
const made = (name: string, by: Kernel, count: (n: number) => number, change: Change = (x) => x): Unit =>
  makeUnit(name, {}, ({ ops, scores }) => {
    const of = ops.kernel(by, { x: scores }),
      n = count(scores.shape[1]);
    return change(
      {
        units: { of, count: n },
        scores:
          by === late
            ? ops.groupSlots('mean', scores, ops.kernel(pairs, { x: scores }), n)
            : ops.groupSlots('mean', scores, of, n),
      },
      scores,
    );
  })();
const known = memory();
export const units: Field = field('unit', unit, {
  good: made('pairs', pairs, half),
  mutants: {
    contiguous: made('turns', turns, () => 2),
    ordered: made('down', down, half),
    cover: made('late', late, half),
    scored: made('token scores', pairs, half, (x, scores) => ({ ...x, scores })),
    pure: makeUnit('remembers', {}, ({ ops, scores }) => {
      const of = ops.kernel(pairs, { x: scores }),
        n = half(scores.shape[1]);
      return {
        units: { of, count: n },
        scores: ops.groupSlots(known(scores) ? 'max' : 'sum', ops.add(scores, 9), of, n),
      };
    })(),
    traced: made('reads', pairs, half, (x, scores) => {
      peek(scores);
      return x;
    }),
  },
});

import { kernel, scoreAllocator as makeAllocator } from '@kv/core';
import type { Kernel, StepContext, ScoreAllocator, Tensor, WithRows } from '@kv/core';
import { scoreAllocator } from '../../src/score-allocator.ts';
import type { AnyScoreAllocator, ScoreAllocatorOptions } from '../../src/score-allocator.ts';
import { field, memory, peek, sizes, withPadding } from './field.ts';
import type { Field } from './field.ts';

interface Head {
  readonly b: number;
  readonly n: number;
  readonly forced: number;
}
/** Moves `by` slots, where `when` allows, from the first head that may give to the first other one that may take. */
const move = (
  id: string,
  by: number,
  gives: (h: Head) => boolean,
  takes: ((h: Head) => boolean) | undefined,
  columns = 1,
) =>
  kernel({
    id,
    inputs: { budgets: 'f32', sizes: 'f32', forced: 'f32', when: 'f32' },
    per: 'row',
    wgsl: '',
    output: { dtype: 'f32', shape: ({ budgets }) => [budgets[0], columns] },
    ref({ budgets, sizes: n, forced, when }, _, out) {
      const heads = Array.from(budgets.data, (b, i) => ({ b, n: n.data[i], forced: forced.data[i], i }));
      const from = heads.find((h) => when.data[h.i] !== 0 && gives(h)),
        to = takes && heads.find((h) => h.i !== from?.i && takes(h));
      heads.forEach(({ b, i }) => {
        out[i * columns] = from && (to || !takes) ? b - (i === from.i ? by : 0) + (i === to?.i ? by : 0) : b;
      });
    },
  });
const made = (
  name: string,
  moved: Kernel,
  when: (ctx: StepContext & WithRows) => Tensor | number = () => 1,
): ScoreAllocator =>
  makeAllocator(name, {}, (ctx) => {
    const { ops, scores, budgets, forced } = ctx,
      each = when(ctx);
    return {
      budgets: ops.kernel(moved, {
        budgets,
        sizes: sizes(ops, scores),
        forced: forced ? ops.sum(forced) : ops.fill(budgets, 0),
        when: typeof each === 'number' ? ops.fill(budgets, each) : each,
      }),
    };
  })();
const spare =
    (by: number) =>
    ({ b, forced }: Head): boolean =>
      b - by >= forced,
  room =
    (by: number) =>
    ({ b, n }: Head): boolean =>
      b + by <= n;
const shift = move('shift', 1, spare(1), room(1)),
  known = memory();
export const scoreAllocators: Field = field<keyof typeof scoreAllocator, AnyScoreAllocator, ScoreAllocatorOptions>(
  'score allocator',
  scoreAllocator,
  {
    good: made('shift', shift),
    mutants: {
      shape: made('two columns', move('columns', 1, spare(1), room(1), 2)),
      whole: made('halves', move('halves', 0.5, spare(0.5), room(0.5))),
      total: made('loses one', move('loses', 1, spare(1), undefined)),
      cap: made(
        'overfills',
        move('overfills', 1, spare(1), ({ b, n }) => b === n),
      ),
      rows: made('sees KV heads', shift, ({ at }) => (at.selectRows === at.kvHeads ? 1 : 0)),
      forced: made(
        'starves',
        move('starves', 1, ({ b, forced }) => b > 0 && b <= forced, room(1)),
      ),
      padding: made('sees padding', shift, ({ ops, scores }) => ops.less(withPadding(ops, scores), 1)),
      pure: made('remembers', shift, ({ scores }) => (known(scores) ? 1 : 0)),
      traced: made('reads', shift, ({ scores }) => (peek(scores) > 0 ? 1 : 0)),
    },
  },
);

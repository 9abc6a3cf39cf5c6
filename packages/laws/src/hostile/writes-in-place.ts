import {
  allocator,
  compose,
  hide,
  kernel,
  keys,
  onCompact,
  onStep,
  positions,
  scoreAllocator,
  scorer,
  transform,
  values,
  view,
  wrapSelect,
} from '@kv/core';
import type { AnySignal, Atom, DraftSelection, Piece, Policy, Scorer, StepInput, Tensor } from '@kv/core';
import { even, first, inner, kept, plain, topK, zeros } from './correct-pieces.ts';
import type { FailurePoint } from './fault-point.ts';
import { undeclaredStep } from './undeclared-step.ts';

/** Pieces that write to objects that are read-only. */
export const changes: readonly (readonly [name: string, policy: () => Policy])[] = [
  ['the scores of a draft', () => undeclaredStep((draft) => Object.assign(draft, { scores: undefined }))],
  [
    'the states of a draft',
    () =>
      undeclaredStep((draft, { ops }) => ({
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
    // an opaque tensor
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

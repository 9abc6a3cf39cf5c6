import type {
  At,
  Atom,
  CompactHook,
  FreezeHook,
  Inner,
  Reach,
  StepHook,
  ViewHook,
  Visible,
  WrapSelectHook,
} from '../atoms.ts';
import { checkNumber, isPositiveInteger } from '../errors.ts';
import { context, label, parts, written } from './author.ts';
import type { Common, Head, Options } from './author.ts';
import { PHASES } from '../piece.ts';
import type { Hooked } from '../piece.ts';
import type { AnySignal, Values } from '../signals.ts';
import type { Tensor } from '../tensor.ts';

const hooked = <N extends string>(name: N, options: Options | undefined, atom: Atom): Hooked<N> => ({
  protocol: 1,
  from: PHASES,
  to: 'same',
  name,
  label: label(name, options),
  atoms: [atom],
});
const base = <N extends string>(head: Head<N>): { name: N; label: string } => ({
  name: parts(head).name,
  label: label(parts(head).name, parts(head).options),
});

/**
 * Runs after every decoded token and returns new state: accumulators, decay, moving averages. Reach `model` runs once,
 * in layer 0.
 */
export function onStep<const N extends string, const S extends readonly AnySignal[]>(
  head: Head<N>,
  needs: S,
  run: (ctx: Common & Values<S>) => Readonly<Record<string, Tensor>>,
  reach: Reach = 'layer',
): Hooked<N> {
  const names = base(head);
  const atom: StepHook = {
    at: 'step',
    ...names,
    needs,
    reach,
    run: (cells) => cells.map((cell) => written(names.name, needs, run(context(cell, needs)))),
  };
  return hooked(names.name, parts(head).options, atom);
}

/** Hides slots from a query and evicts nothing. */
export function hide<const N extends string, const S extends readonly AnySignal[]>(
  head: Head<N>,
  during: ViewHook['during'],
  needs: S,
  run: (ctx: Common & Values<S>) => Visible,
): Hooked<N> {
  const names = base(head);
  const atom: ViewHook = { at: 'view', ...names, during, needs, run: (cell) => run(context(cell, needs)) };
  return hooked(names.name, parts(head).options, atom);
}

/**
 * Freezes positions from `sinks` up to `below` in one layer of prefill: they keep the previous layer's hidden state,
 * keys and values.
 */
export function freeze<const N extends string>(
  head: Head<N>,
  run: (at: At) => { readonly sinks: number; readonly below: number },
): Hooked<N> {
  const names = base(head);
  const atom: FreezeHook = { at: 'freeze', ...names, needs: [], run };
  return hooked(names.name, parts(head).options, atom);
}

/**
 * Says what happens with the evicted: new keys or values before compaction. `scores` are the event's, as the selector
 * was given them.
 */
export function onCompact<const N extends string, const S extends readonly AnySignal[]>(
  head: Head<N>,
  needs: S,
  run: (ctx: Common & Values<S> & { readonly kept: Tensor; readonly scores: Tensor | undefined }) => {
    readonly keys?: Tensor;
    readonly values?: Tensor;
  },
): Hooked<N> {
  const names = base(head);
  const atom: CompactHook = {
    at: 'compact',
    ...names,
    needs,
    run: (cell) => run({ ...context(cell, needs), kept: cell.kept, scores: cell.draft.scores }),
  };
  return hooked(names.name, parts(head).options, atom);
}

/** Wraps the policy inside a view: reuse an earlier set, or call `inner`. */
export function wrapSelect<const N extends string, const S extends readonly AnySignal[]>(
  head: Head<N>,
  needs: S,
  run: (ctx: Common & Values<S> & { inner(active?: Tensor): Inner }) => {
    readonly kept: Tensor;
    readonly state?: Readonly<Record<string, Tensor>>;
  },
): Hooked<N> {
  const names = base(head);
  const atom: WrapSelectHook = {
    at: 'wrapSelect',
    ...names,
    needs,
    run: (cell) => {
      const { kept, state } = run({ ...context(cell, needs), inner: (active) => cell.inner(active) });
      return { kept, state: written(names.name, needs, state) };
    },
  };
  return hooked(names.name, parts(head).options, atom);
}

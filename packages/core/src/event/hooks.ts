import type {
  AttendingQueries,
  AttentionTerm,
  AttentionTerms,
  LayerContext,
  Atom,
  Replacement,
  StepInput,
  WrappedSelection,
  Reach,
  ViewHook,
  ViewBounds,
} from '../piece/atoms.ts';
import { expectObject } from './boundary.ts';
import { factory } from '../piece/declare.ts';
import { needsOf } from '../piece/piece-declaration.ts';
import type { DeclarationFields, Factory } from '../piece/declare.ts';
import { context, stateOf } from '../piece/drafts.ts';
import type { StepContext, SignalReaders } from '../piece/piece-declaration.ts';
import type { StepAuthor } from '../piece/drafts.ts';
import { count, maybe } from '../piece/option.ts';
import type { Options, ResolvedOptions } from '../piece/option.ts';
import { PHASES, PROTOCOL } from '../piece/piece.ts';
import type { HookPiece } from '../piece/piece.ts';
import type { AnySignal } from '../piece/signals.ts';
import type { State } from '../piece/state.ts';
import type { Tensor } from '../tensor/tensor.ts';
import type { ViewLoop } from '../piece/view-loop.ts';

type NewState = Readonly<Record<string, Tensor>>;
/** Declaration of a hook. */
export interface HookDeclaration<O extends Options, S extends readonly AnySignal[]> extends DeclarationFields<O> {
  /** Signals that it reads. */
  readonly needs?: S | ((options: ResolvedOptions<O>) => S);
  /** Further hooks that are added to the policy. */
  readonly hooks?: (options: ResolvedOptions<O>) => readonly HookPiece[];
  /** Returns what runs instead of `wrapSelect`'s function inside a view, if there is a loop for these options. */
  readonly loop?: (options: ResolvedOptions<O>) => ViewLoop | undefined;
}

/** Fields of a declaration of a hook, in addition to those of every declaration. */
const FIELDS = 'needs hooks loop reach during copies together biases'.split(' ');

/** Returns a factory of hooks; `atom` makes what an engine runs. */
function hook<N extends string, O extends Options, S extends readonly AnySignal[]>(
  name: N,
  declared: HookDeclaration<O, S>,
  atom: (by: StepAuthor, options: ResolvedOptions<O>) => Atom,
): Factory<O, HookPiece<N>> {
  return factory<O, HookPiece<N>>(
    name,
    declared,
    { kind: 'hook', from: PHASES, to: 'same', fields: FIELDS },
    (o, label) => {
      const hooks = (declared.hooks?.(o) ?? []).flatMap(({ atoms }) => atoms);
      return {
        protocol: PROTOCOL,
        from: PHASES,
        to: 'same',
        name,
        label,
        atoms: [atom({ name, label, needs: needsOf(name, declared, o) }, o), ...hooks],
      };
    },
    (o) => needsOf(name, declared, o),
  );
}
const read = <S>(
  cell: StepInput,
  by: StepAuthor,
  declared: { readonly needs?: S | object },
): StepContext & SignalReaders<S> => context(cell, by, declared) as unknown as StepContext & SignalReaders<S>;
const EMPTY: ReadonlyMap<string, Tensor> = new Map();
function loopOf<O extends Options>(
  { loop }: Pick<HookDeclaration<O, readonly AnySignal[]>, 'loop'>,
  o: ResolvedOptions<O>,
): { readonly loop?: ViewLoop } {
  const made = loop?.(o);
  return made ? { loop: made } : {};
}

/**
 * Declares a hook that runs after every decoded token and returns new state: accumulators, decay, moving averages. With
 * reach `model` it runs once, in layer 0.
 */
export const onStep = <const N extends string, const S extends readonly AnySignal[] = [], O extends Options = {}>(
  name: N,
  declared: HookDeclaration<O, S> & { readonly reach?: Reach },
  run: (ctx: StepContext & SignalReaders<S>, options: ResolvedOptions<O>) => NewState,
): Factory<O, HookPiece<N>> =>
  hook(name, declared, (by, o) => ({
    at: 'step',
    ...by,
    reach: declared.reach ?? 'layer',
    run: (cells) => cells.map((cell) => stateOf(EMPTY, by, cell.at, run(read<S>(cell, by, declared), o))),
  }));

/** Declares a hook that hides slots from a query and evicts nothing. */
export const hide = <const N extends string, const S extends readonly AnySignal[] = [], O extends Options = {}>(
  name: N,
  declared: HookDeclaration<O, S> & { readonly during: ViewHook['during'] },
  run: (ctx: StepContext & SignalReaders<S>, options: ResolvedOptions<O>) => ViewBounds,
): Factory<O, HookPiece<N>> =>
  hook(name, declared, (by, o) => ({
    at: 'view',
    ...by,
    during: declared.during,
    run: (cell) => run(read<S>(cell, by, declared), o),
  }));

/**
 * Declares a hook that freezes positions from `sinks` up to `below` (exclusive) in one layer of prefill: they keep the
 * previous layer's hidden state, which the layer projects to their keys and values, unless it `copies` keys and values
 * too.
 */
export const freeze = <const N extends string, O extends Options = {}>(
  name: N,
  declared: HookDeclaration<O, []> & { readonly copies?: (options: ResolvedOptions<O>) => boolean },
  run: (at: LayerContext, options: ResolvedOptions<O>) => { readonly sinks: number; readonly below: number },
): Factory<O, HookPiece<N>> =>
  hook(name, declared, (by, o) => ({
    at: 'freeze',
    ...by,
    ...(declared.copies?.(o) && { copies: true }),
    run: (at) => run(at, o),
  }));

/**
 * Declares a hook that gives new keys, values or biases before compaction. `scores` are the event's, as the selector read
 * them; `terms` gives the term that the policy adds to the attention of some queries, if it adds one; `together`: the kept slots take
 * consecutive rotary positions; `biases`: it may give biases.
 */
export const onCompact = <const N extends string, const S extends readonly AnySignal[] = [], O extends Options = {}>(
  name: N,
  declared: HookDeclaration<O, S> & {
    readonly together?: boolean;
    readonly biases?: (options: ResolvedOptions<O>) => boolean;
  },
  run: (
    ctx: StepContext &
      SignalReaders<S> & {
        readonly kept: Tensor;
        readonly scores: Tensor | undefined;
        readonly terms: ((rows: AttendingQueries) => AttentionTerms) | undefined;
      },
    options: ResolvedOptions<O>,
  ) => Replacement,
): Factory<O, HookPiece<N>> =>
  hook(name, declared, (by, o) => ({
    at: 'compact',
    ...by,
    ...(declared.together && { movesTogether: true }),
    ...(declared.biases?.(o) && { givesBiases: true }),
    run: (cell) =>
      run(
        Object.assign(read<S>(cell, by, declared), {
          kept: cell.kept,
          scores: cell.draft.scores,
          terms: cell.terms,
        }),
        o,
      ),
  }));

/**
 * Declares a hook that folds the slots that leave into state, before compaction.
 *
 * @remarks `kept` are the slots that stay, in the form that selectors leave them: `ops.sub(1, ops.mark(kept, biases))` is 1
 * where a slot leaves. A slot with a bias b counts e^b times. `hooks: (options) => [term(options)]` adds the term that
 * reads the states. Fold into states of kind `sequence`, with `width` columns (1 unless it is given), `perChannel` more a
 * channel of a head and `perPair` more a pair of channels; where options change what the columns mean, the state's id must
 * say so. `foldLaws` of `@kv/laws` tests the whole.
 */
export const onEvict = <const N extends string, const S extends readonly AnySignal[] = [], O extends Options = {}>(
  name: N,
  declared: HookDeclaration<O, S>,
  run: (ctx: StepContext & SignalReaders<S> & { readonly kept: Tensor }, options: ResolvedOptions<O>) => NewState,
): Factory<O, HookPiece<N>> =>
  hook(name, declared, (by, o) => ({
    at: 'evict',
    ...by,
    run: (cell) => stateOf(EMPTY, by, cell.at, run(Object.assign(read<S>(cell, by, declared), { kept: cell.kept }), o)),
  }));

/**
 * Declares a hook that adds a term to attention: what takes part in each query's softmax in addition to the slots, made from
 * states, which are all that it may read. It first runs once they have been written, for every later query.
 *
 * @remarks `queries` `[H, m, d]` are rotated and not scaled: the piece multiplies by `at.scale` (1 / √d without), caps
 * to `at.softcap`, and heeds `at.window` with the queries' `positions` `[1, m]`. It returns `masses` `[H, m]`, logarithms
 * as logits are (-1e30 for nothing), and `values` `[H, m, d]`.
 */
export const onAttend = <const N extends string, const S extends readonly State[] = [], O extends Options = {}>(
  name: N,
  declared: HookDeclaration<O, S>,
  run: (ctx: StepContext & SignalReaders<S> & AttendingQueries, options: ResolvedOptions<O>) => AttentionTerm,
): Factory<O, HookPiece<N>> =>
  hook(name, declared, (by, o) => ({
    at: 'attend',
    ...by,
    run: (cell) => run({ ...read<S>(cell, by, declared), ...cell.rows }, o),
  }));

/** Declares a hook that wraps the policy inside a view: it reuses an earlier set, or calls `inner`. */
export const wrapSelect = <const N extends string, const S extends readonly AnySignal[] = [], O extends Options = {}>(
  name: N,
  declared: HookDeclaration<O, S>,
  run: (
    ctx: StepContext & SignalReaders<S> & { inner(active?: Tensor): WrappedSelection },
    options: ResolvedOptions<O>,
  ) => { readonly kept: Tensor; readonly state?: NewState | undefined },
): Factory<O, HookPiece<N>> =>
  hook(name, declared, (by, o) => ({
    at: 'wrapSelect',
    ...by,
    ...loopOf(declared, o),
    run(cell) {
      const inner = (active?: Tensor): WrappedSelection => cell.inner(active),
        made = run(Object.assign(read<S>(cell, by, declared), { inner }), o);
      expectObject({ name, layer: cell.at.layer }, 'kept slots', made);
      return { kept: made.kept, state: stateOf(EMPTY, by, cell.at, made.state) };
    },
  }));

/**
 * Closes the gaps after every eviction: kept keys are rotated to consecutive positions, and later tokens follow them.
 *
 * @remarks StreamingLLM's positions within the cache, Xiao et al. 2023, arXiv:2309.17453, for any policy.
 */
export const rerotate: Factory<{}, HookPiece<'rerotate'>> = onCompact(
  'rerotate',
  { source: 'Xiao et al. 2023, arXiv:2309.17453', says: 'Turns kept keys to consecutive positions.', together: true },
  () => ({}),
);

const timing = {
  block: maybe(count(1, 'tokens', 'Prefill in blocks of this many tokens, an event after each.')),
  every: maybe(count(1, 'tokens', 'An event every N decoded tokens.')),
};
/**
 * Sets when events run: after each block of prefill, every given number of decoded tokens; by default once, at the end
 * of prefill.
 */
export const cadence: Factory<typeof timing, HookPiece<'cadence'>> = hook(
  'cadence',
  { source: '@kv/core', says: 'When events run.', options: timing },
  (by, { block, every }) => ({
    at: 'cadence',
    ...by,
    ...(block !== undefined && { block }),
    ...(every !== undefined && { every }),
  }),
);

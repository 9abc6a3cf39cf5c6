import type { DraftSelection, LayerContext, Replacement } from '../piece/atoms.ts';
import { KvError } from '../tensor/errors.ts';
import { axesOf, sizesOf } from './input-shapes.ts';
import { countedPositions, noBiases, isArray, sharers, stateArray, stateShape } from './host-signals.ts';
import type { Ops } from '../tensor/maths.ts';
import { expectBackend } from '../tensor/backend.ts';
import type { Backend } from '../tensor/backend.ts';
import { LEVELS } from '../piece/levels.ts';
import type { Level } from '../piece/levels.ts';
import { showValue } from '../piece/option.ts';
import type { AnyPiece, Piece } from '../piece/piece.ts';
import { compile, planBudgets } from '../event/run.ts';
import { recordHooks, runAttend } from '../event/hook-boundary.ts';
import { decisionsOf, forcedMasks, toRead } from '../event/read-decisions.ts';
import type { CompiledPolicy } from '../event/run.ts';
import { emptyDraft, finish, runSteps } from '../event/steps.ts';
import type { EventLayer } from '../event/steps.ts';
import { signalKey } from '../piece/signals.ts';
import type { AnySignal, Tokens } from '../piece/signals.ts';
import { isState } from '../piece/state.ts';
import type { DenseArray, HostArray, Tensor } from '../tensor/tensor.ts';

/** Plain numbers: an ndarray (or anything shaped like one), or nested arrays of numbers: rows, or heads of rows. */
export type PlainArray = HostArray | Nested;
type Nested = readonly (readonly number[])[] | readonly (readonly (readonly number[])[])[];
/**
 * Inputs of a piece: signals by the name under which the piece reads them, or, if it reads two by one name, by their
 * key: `'attention.last'`, `'attention.window(w=64)'`. In addition, what the draft starts with.
 */
export interface Inputs {
  /** Scores `[rows, n]` that a transform, allocator or selector starts from. */
  readonly scores?: PlainArray;
  /** Slots to keep per KV head. @defaultValue all */
  readonly budget?: number;
  readonly tokens?: Tokens;
  readonly at?: Partial<LayerContext>;
  /** Numbers, or a value that the piece reads on the host. */
  readonly [signal: string]: object | number | undefined;
}
/** What a piece made of the arrays that `applyOn` was given. */
export interface ApplyResult {
  /** Scores `[rows, slots]` after the piece; absent if the piece leaves none. */
  readonly scores?: DenseArray;
  /** Ascending slots per row. */
  readonly kept?: readonly (readonly number[])[];
  /** Levels of the kept slots, in their order; absent if the piece gives none. */
  readonly levels?: readonly (readonly Level[])[];
  /** Slots to keep, per row of the selection. */
  readonly budgets: readonly number[];
  /** Notes on budgets that could not be met as asked for, such as `linearBudgets` in a single layer. */
  readonly notes: readonly string[];
  /** New keys `[G, slots, d]` that a hook gives, of which those of kept slots count. */
  readonly keys?: DenseArray;
  /** New values `[G, slots, d]`, likewise. */
  readonly values?: DenseArray;
  /** New biases `[G, slots]`, likewise. */
  readonly biases?: DenseArray;
  /** State that the piece writes, by the names under which `apply` takes it; absent if it writes none. */
  readonly states?: Readonly<Record<string, DenseArray>>;
}

/**
 * Converts numbers to a host array.
 *
 * @param free a provider makes the value, so it may be anything
 * @throws KvError unless `x` is rows of numbers or an array with a shape.
 */
function toHost(at: string, name: string, x: object, free: boolean): HostArray | undefined {
  if (isArray(x)) return x;
  if (ArrayBuffer.isView(x) && free) return undefined;
  if (ArrayBuffer.isView(x))
    throw new KvError(at, `expected '${name}' as rows of numbers or { data, shape }, got a flat ${x.constructor.name}`);
  if (!Array.isArray(x)) return undefined;
  const shape = shapeOf(x);
  if (!shape || shape.length < 2)
    throw new KvError(
      at,
      `expected '${name}' as rows of equal length, or { data, shape }, got ${x.length === 0 ? 'an empty array' : 'other rows'}`,
    );
  return { data: Float32Array.from((x as readonly number[][]).flat(shape.length - 1)), shape };
}

/** Returns the shape of nested arrays of equal lengths, at most three deep; undefined for any other value. */
function shapeOf(x: unknown, depth = 0): readonly number[] | undefined {
  if (!Array.isArray(x)) return typeof x === 'number' ? [] : undefined;
  if (depth > 2 || x.length === 0) return depth > 2 ? undefined : [0];
  const [first, ...others] = x.map((inner) => shapeOf(inner, depth + 1));
  return first && others.every((other) => other?.join() === first.join()) ? [x.length, ...first] : undefined;
}

/** The result of a piece, by its type: with scores if it returns or is given any, with slots if it selects. */
export type ApplyResultOf<P extends AnyPiece> = P extends AnyPiece
  ? ApplyResult &
      ([P['to']] extends ['kept'] ? Required<Pick<ApplyResult, 'kept'>> : unknown) &
      ([P['to']] extends ['same']
        ? 'start' extends P['from'][number]
          ? unknown
          : Required<Pick<ApplyResult, 'scores'>>
        : [P['to']] extends ['scores' | 'weights' | 'units' | 'kept']
          ? Required<Pick<ApplyResult, 'scores'>>
          : unknown)
  : never;

interface Recorded {
  readonly layer: EventLayer;
  readonly draft: DraftSelection;
  readonly compiled: CompiledPolicy;
  readonly notes: readonly string[];
  readonly replaced: Replacement;
}
/** A layer as plain numbers make it. */
interface Place {
  readonly at: LayerContext;
  readonly arrays: ReadonlyMap<string, HostArray>;
  read(signal: AnySignal): unknown;
}

function record(piece: Piece, inputs: Inputs, ops: Ops): Recorded {
  const compiled = compile(piece),
    { at, arrays, read } = placeOf(piece, compiled, inputs, ops, (given) => {
      if (piece.from.includes('start') || given.has('scores')) return;
      const names = Object.keys(inputs).join(', ') || 'nothing';
      throw new KvError(piece.label, `starts from ${piece.from.join(' or ')}: expected { scores }, got ${names}`);
    }),
    plan = planBudgets(compiled, at.budget, [new Array<number>(at.kvHeads).fill(at.slots)]),
    layer: EventLayer = { at, read, budgets: plan.budgets[0] },
    start = startOf(piece, layer, arrays.get('scores'), ops),
    [ran] = runSteps(compiled.steps, [layer], ops, [start]);
  if (!ran.kept) return { layer, compiled, notes: plan.notes, draft: ran, replaced: {} };
  const hooked = finish(recordHooks(compiled, [layer], [ran], ops)),
    [draft] = hooked.drafts;
  if ('error' in hooked) throw hooked.error;
  const replaced: Replacement = Object.assign({}, ...hooked.made[0].map(({ checks: _, ...made }) => made));
  return { layer, compiled, notes: plan.notes, draft, replaced };
}

/**
 * Reads signals from plain numbers.
 * @param check looks at the arrays before their shapes are compared
 * @throws KvError for numbers whose shapes do not match
 */
function placeOf(
  piece: Piece,
  compiled: CompiledPolicy,
  inputs: Inputs,
  ops: Ops,
  check: (arrays: Place['arrays']) => void = () => {},
): Place {
  const names = Object.keys(inputs).join(', ') || 'nothing';
  const arrays = new Map<string, HostArray>();
  const provided = new Set(compiled.needs.filter((s) => s.provide).flatMap((s) => [signalKey(s), s.id, s.as]));
  for (const [name, x] of Object.entries(inputs)) {
    const array =
      typeof x === 'object' && name !== 'tokens' && name !== 'at'
        ? toHost('apply', name, x, provided.has(name))
        : undefined;
    if (array) arrays.set(name, array);
  }
  check(arrays);
  const of = (signal: AnySignal): HostArray | undefined =>
    arrays.get(signalKey(signal)) ?? arrays.get(signal.id) ?? arrays.get(signal.as);
  const named = new Map([
    ...arrays,
    ...compiled.needs.flatMap((s) => {
      const x = of(s);
      return x ? [[s.as, x] as const] : [];
    }),
  ]);
  const sizes = sizesOf(
    piece.label,
    [...arrays].map(([name, array]) => {
      const signal = compiled.needs.find((need) => of(need) === array);
      return { name, shape: array.shape, axes: axesOf(name, signal) };
    }),
    inputs.at ?? {},
  );
  const { kvHeads } = sizes;
  const seen = inputs.tokens?.ids.length ?? 0;
  const widths = [...named.values()].map(({ shape }) => shape[1] ?? 0);
  const slots = sizes.slots ?? (widths.length > 0 ? Math.max(...widths) : seen);
  const last = Array.from(named.get('positions')?.data ?? []).reduce((most, p) => Math.max(most, p), -1),
    length = inputs.at?.length ?? Math.max(slots, seen, last < 2 ** 20 ? Math.ceil(last) + 1 : 0);
  const at: LayerContext = {
    layer: 0,
    layers: 1,
    step: 0,
    promptLength: length,
    length,
    slots,
    queryHeads: Math.max(kvHeads, ...[...named.values()].map(({ shape }) => shape[0] ?? 0)),
    kvHeads,
    headDim: named.get('values')?.shape[2] ?? named.get('keys')?.shape[2] ?? 1,
    aligned: !named.has('positions'),
    budget: inputs.budget ?? slots,
    selectRows: kvHeads,
    ...(named.has('biases') && { biased: true }),
    ...inputs.at,
  };
  const read = (signal: AnySignal): unknown => {
    const array = of(signal);
    const rivals = sharers(compiled.needs, signal);
    if (array && array === arrays.get(signal.as) && rivals.length > 0)
      throw new KvError(
        piece.label,
        `reads ${[signal, ...rivals].map((s) => `'${signalKey(s)}'`).join(' and ')}: expected each under that name, got one '${signal.as}' for all`,
      );
    if (array) return ops.from(array, signal.id === 'positions' ? 'u32' : 'f32');
    const value = inputs[signalKey(signal)] ?? inputs[signal.id] ?? inputs[signal.as];
    if (typeof value === 'object') return value;
    if (signal.id === 'positions') return ops.from(countedPositions(kvHeads, slots), 'u32');
    if (signal.id === 'biases') return ops.from(noBiases(kvHeads, slots));
    if (isState(signal)) return ops.from(stateArray(signal.state, at), signal.state.dtype);
    throw new KvError(
      piece.label,
      `needs the signal ${signalKey(signal)}: pass it as '${rivals.length > 0 ? signalKey(signal) : signal.as}', got ${names}`,
    );
  };
  return { at, arrays, read };
}

/** Returns the draft that a piece starts from, with the caller's scores. */
function startOf(piece: Piece, layer: EventLayer, array: HostArray | undefined, ops: Ops): DraftSelection {
  const empty = emptyDraft(layer, ops);
  if (!array) return empty;
  const scores = ops.from(array, 'f32');
  const weights = !piece.from.includes('scores');
  const want = weights ? 'weights, finite and at least 0' : 'finite';
  const { layer: at } = layer.at;
  return {
    ...empty,
    scores,
    checks: [{ bad: ops.firstBad(scores, weights ? 0 : undefined), piece: piece.label, layer: at, want }],
  };
}

type Read = Parameters<typeof decisionsOf>[2];
/** What a piece makes besides its decisions: scores, what replaces the cache, and states, each by its name. */
interface Numbers<T> {
  readonly made: Readonly<Record<string, T>>;
  readonly states: Readonly<Record<string, T>>;
}
function numbersOf({ draft: { scores, state }, compiled, replaced }: Recorded): Numbers<Tensor> {
  const { keys, values, biases } = replaced;
  const nameOf = (id: string): string => {
    const signal = compiled.needs.find((need) => need.id === id);
    return signal && sharers(compiled.needs, signal).length === 0 ? signal.as : id;
  };
  return {
    made: {
      ...(scores && { scores }),
      ...(keys && { keys }),
      ...(values && { values }),
      ...(biases && { biases }),
    },
    states: Object.fromEntries(Array.from(state, ([id, x]) => [nameOf(id), x])),
  };
}

function applied(recorded: Recorded, read: Read): ApplyResult {
  const { layer, draft, notes } = recorded,
    { made, states } = numbersOf(recorded),
    masks = read.length - forcedMasks([draft]).length,
    all = decisionsOf([layer], [draft], read, draft.kept === undefined, read.slice(masks)),
    first = masks - Object.keys(made).length - Object.keys(states).length,
    numbers = (of: object, from: number): Readonly<Record<string, DenseArray>> =>
      Object.fromEntries(
        Object.keys(of).map((name, i) => {
          const { data, shape } = read[from + i];
          return [name, { data, shape }];
        }),
      );
  return {
    budgets: all.budgets[0],
    notes: [...new Set([...notes, ...all.notes])],
    ...numbers(made, first),
    ...(draft.kept && { kept: all.kept[0].map((set) => Array.from(set)) }),
    ...(all.levels && { levels: all.levels[0].map((of) => Array.from(of, (level) => LEVELS[level])) }),
    ...(Object.keys(states).length > 0 && { states: numbers(states, first + Object.keys(made).length) }),
  };
}
function wanted(recorded: Recorded): readonly Tensor[] {
  const { made, states } = numbersOf(recorded);
  return [
    ...toRead([recorded.draft]),
    ...Object.values(made),
    ...Object.values(states),
    ...forcedMasks([recorded.draft]),
  ];
}

/** A recorded run of a piece: the tensors to read, and the function that turns their numbers into a result. */
export interface RecordedApply<P extends AnyPiece> {
  readonly tensors: readonly Tensor[];
  result(read: Read): ApplyResultOf<P>;
}

/** Records a piece's run over plain numbers of one layer. @throws KvError, see `applyOn` */
export function recordApply<const P extends AnyPiece>(piece: P, inputs: Inputs, ops: Ops): RecordedApply<P> {
  expectInputs('apply', inputs, '{ attention }');
  const recorded = record(piece, inputs, ops);
  return { tensors: wanted(recorded), result: (read) => applied(recorded, read) as ApplyResultOf<P> };
}

/**
 * Runs a piece on plain numbers of one layer, without an engine, on any backend, with one read.
 * @param inputs numbers by the names of signals, such as `{ attention: [[0.1, 0.9]], budget: 1 }`
 * @throws KvError naming the signal that is missing, inputs whose shapes do not match, the score that is not finite, or
 * more forced slots than budget.
 */
export async function applyOn<const P extends AnyPiece>(
  backend: Backend,
  piece: P,
  inputs: Inputs,
): Promise<ApplyResultOf<P>> {
  expectBackend('applyOn', backend);
  const { tensors, result } = recordApply(piece, inputs, backend.ops);
  return result(await backend.read(tensors));
}

/** The term that a policy adds to the attention of some queries. */
export interface AttendResult {
  /** ln of the term's mass, `[H, m]`. */
  readonly masses: DenseArray;
  /** Its value, `[H, m, d]`. */
  readonly values: DenseArray;
}

/**
 * Records what a piece's `onAttend` hook adds to attention, over plain numbers of one layer.
 * @param inputs `queries` `[H, m, d]`, their `positions` `[1, m]`, and states by name, as `apply` returns them
 * @throws KvError for a piece without such a hook, and for inputs that are missing or do not fit
 */
export function recordAttend(piece: Piece, inputs: Inputs, ops: Ops): readonly [masses: Tensor, values: Tensor] {
  expectInputs('attend', inputs, '{ queries, positions }');
  const compiled = compile(piece),
    [hook] = compiled.hooks('attend');
  if (!hook) throw new KvError(piece.label, 'expected a piece with an onAttend hook, got one without');
  const { queries: q, positions: p, at: given, ...states } = inputs,
    queries = numbersAt('queries', q, ['query heads', 'queries', 'channels'], Number.isFinite),
    [H, m, headDim] = queries.shape as [number, number, number],
    positions = numbersAt('positions', p, [1, m], (x) => Number.isSafeInteger(x) && x >= 0),
    needs = hook.needs.filter(isState),
    unread = Object.keys(states).find((name) => !needs.some(({ id, as }) => name === id || name === as));
  if (unread !== undefined)
    throw new KvError(
      'attend',
      `expected ${needs.map(({ as }) => `'${as}'`).join(', ')} of '${piece.label}', got '${unread}'`,
    );
  const { at, read } = placeOf(piece, compiled, { ...states, at: { queryHeads: H, headDim, ...given } }, ops);
  if (H % at.kvHeads !== 0)
    throw new KvError('attend', `expected queries of a multiple of ${at.kvHeads} heads, those of the states, got ${H}`);
  for (const { as, id, state } of needs)
    numbersAt(as, states[as] ?? states[id], stateShape(state, at), Number.isFinite);
  const rows = { queries: ops.from(queries), positions: ops.from(positions, 'u32') },
    { masses, values } = runAttend(hook, { at, ops, read }, rows);
  return [masses, values];
}

/** @throws KvError unless there is an object of inputs */
function expectInputs(at: string, inputs: unknown, such: string): void {
  if (typeof inputs !== 'object' || inputs === null)
    throw new KvError(at, `expected signals by name such as ${such}, got ${showValue(inputs)}`);
}

/**
 * Returns an input of `attend` as an array.
 * @param axes the size of each axis, or its meaning where any size will do
 * @throws KvError for another shape, and for a number that is not as it must be
 */
function numbersAt(
  name: string,
  x: unknown,
  axes: readonly (number | string)[],
  holds: (number: number) => boolean,
): HostArray {
  const array = typeof x === 'object' && x !== null ? toHost('attend', name, x, false) : undefined,
    fits =
      array?.shape.length === axes.length &&
      axes.every((size, i) => typeof size === 'string' || size === array.shape[i]);
  if (!array || !fits)
    throw new KvError(
      'attend',
      `expected '${name}' as [${axes.join(', ')}], got ${array ? `the shape [${array.shape.join(', ')}]` : showValue(x)}`,
    );
  const bad = Array.from(array.data).find((number) => !holds(number));
  if (bad !== undefined)
    throw new KvError(
      'attend',
      `expected '${name}' as ${name === 'positions' ? 'whole' : 'finite'} numbers, got ${bad}`,
    );
  return array;
}

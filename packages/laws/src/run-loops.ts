import { KvError } from '@kv/core';
import { stateColumns } from '@kv/core/engine';
import type { LayerContext, ViewLoopState, State, StateSpec, ViewChoice, ViewLoop } from '@kv/core';

// The executable definition of kernel/view.ts of @kv/cpu: how the memory of one layer is laid out, and in which order
// the loops of a view are called. It is laid out again at every step, so that a loop that keeps an address fails.

/** One layer at one step of decoding. */
export interface LoopStep {
  /** Where it is; the budget is the view's. */
  readonly at: LayerContext;
  /** Keys, f32 `[G, n, d]`, where n are the slots of the KV head that has most. */
  readonly keys: Float32Array;
  /** Positions of the slots of each KV head, ascending. */
  readonly positions: readonly Uint32Array[];
  /** Last queries, f32 `[H, d]` each, the newest last. */
  readonly queries: readonly Float32Array[];
}
/** A state's numbers, `[rows, columns]`. */
export interface StateNumbers {
  readonly rows: number;
  readonly columns: number;
  readonly data: Float32Array;
}
/** What the loops of one layer keep between steps. */
export interface LoopMemory {
  /** Returns a state with room for that many columns: what was stored, then its first value. */
  state(state: State, columns: number): StateNumbers;
  /** What loops keep about keys, f32 `[G, numbers]`, and the slots of each KV head that it knows. */
  readonly indexes: Map<ViewLoop, { readonly data: Float32Array; readonly known: Uint32Array }>;
}
/** What loops leave. */
export interface LoopResult {
  /** Slots of every query head, as listed. */
  readonly lists: readonly (readonly number[])[];
  /** Numbers of keys and indexes that every query head has read, and whether it chose. */
  readonly read: readonly { readonly numbers: number; readonly active: boolean }[];
  /** Where they wrote what they may not write, if anywhere. */
  readonly stray: string | undefined;
}
/** Returns the order in which the rows of a phase run: an engine's threads may run them in any. */
export type RowOrder = (rows: number) => readonly number[];

/** Returns the columns of a state that follow from its declaration. */
export const columnsOf = (spec: StateSpec, { slots, length, headDim }: LayerContext): number =>
  ({ slot: slots, position: length, unit: spec.width ?? 1, sequence: stateColumns(spec, headDim) })[spec.kind];

type Call = (view: number, own: number, row: number, ...more: readonly number[]) => void;
type Functions = Readonly<Partial<Record<'index' | 'before' | 'score' | 'choose' | 'finish' | 'after', Call>>>;

const PAGE = 65_536;
/** What memory holds where nothing was written: as f32 not a number, as a slot out of range. */
const BLANK = 0x7fc0_dead;
/** What scratch begins with at every call: any number may be there, of this one all bits are set. */
const SCRATCH = 2 ** 23 - 1;
/** Slots that are scored together. */
const SPAN = 256;
/** The word of a view that says which row's score is not finite; the next says which row's list is none. */
const BAD_SCORE = 21;
let memory: WebAssembly.Memory | undefined;
const shared = (): WebAssembly.Memory =>
  (memory ??= new WebAssembly.Memory({ initial: 16, maximum: PAGE, shared: true }));
const instances = new Map<string, Functions>();

/** Keys [from, from + n) of a KV head, as an engine decodes them that stores them in another form than f32. */
function copyKeys(view: number, g: number, from: number, n: number, to: number): void {
  const words = new Uint32Array(shared().buffer),
    [d, keysAt, room] = [2, 4, 5].map((i) => words[view / 4 + i]) as [number, number, number],
    at = keysAt / 4 + (g * room + from) * d;
  words.copyWithin(to / 4, at, at + n * d);
}

/** Returns a loop's functions over the memory of this file. */
function functionsOf({ bytes }: ViewLoop): Functions {
  if (bytes === undefined) return {};
  const known = instances.get(bytes);
  if (known) return known;
  const module = new WebAssembly.Module(Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0))),
    made = new WebAssembly.Instance(module, { env: { memory: shared(), keys: copyKeys } }).exports as Functions;
  instances.set(bytes, made);
  return made;
}

/** Hands out memory; addresses are bytes. */
class Layout {
  end = 1024;
  readonly #written: [from: number, to: number][] = [];
  u32 = new Uint32Array(0);
  f32 = new Float32Array(0);

  /** Places numbers that loops read. */
  read(numbers: number): number {
    const at = this.end;
    this.end += 16 * Math.ceil(numbers / 4) + 16;
    return at;
  }
  /** Places numbers that loops write. */
  write(numbers: number): number {
    const at = this.read(numbers);
    this.allow(at, numbers);
    return at;
  }
  /** Lets loops write some of the numbers that they read. */
  allow(at: number, numbers: number): void {
    this.#written.push([at / 4, at / 4 + numbers]);
  }
  /** Grows memory to what was placed and as many numbers after it, whose address it returns, and blanks the former. */
  blank(after: number): number {
    const { byteLength } = shared().buffer,
      all = this.end + 4 * after;
    if (all > byteLength) shared().grow(Math.ceil((all - byteLength) / PAGE));
    [this.u32, this.f32] = [new Uint32Array(shared().buffer), new Float32Array(shared().buffer)];
    this.u32.fill(BLANK, 0, this.end / 4);
    return this.end;
  }
  /** Copies numbers to an address. */
  put(at: number, numbers: ArrayLike<number>): void {
    (numbers instanceof Float32Array ? this.f32 : this.u32).set(numbers, at / 4);
  }
  /** Returns the words that loops may not write. */
  kept(): Uint32Array {
    const words = this.u32.slice(0, this.end / 4);
    for (const [from, to] of this.#written) words.fill(0, from, to);
    return words;
  }
}

const widthOf = ({ state: { state }, columns }: ViewLoopState, at: LayerContext): number =>
  columns?.(at) ?? columnsOf(state, at);

/** Places a loop's own words and what they point to; `fill` writes them, `save` stores what loops wrote. */
function placeOwn(layout: Layout, loop: ViewLoop, { at, queries }: LoopStep, kept: LoopMemory) {
  const { kvHeads: G, queryHeads: H, headDim: d, slots: n } = at,
    { words = [], states = [], index, window = 1 } = loop,
    rows = states.map((of) => {
      const values = kept.state(of.state, widthOf(of, at)),
        stride = values.columns + (n % 5),
        first = layout.read(values.rows * stride);
      for (let r = 0; r < values.rows; r++) layout.allow(first + 4 * r * stride, widthOf(of, at));
      return { values, stride, first };
    }),
    numbers = index ? Math.ceil(n / index.slots) * index.numbers(d) : 0,
    indexAt = layout.write(G * numbers),
    knownAt = layout.write(G),
    ringAt = layout.read(H * window * d),
    first = n % window,
    earlier = queries.slice(Math.max(0, queries.length - window), -1),
    all = [
      ...words,
      ...rows.flatMap((row) => [row.first, row.stride]),
      ...(index ? [indexAt, 4 * numbers, knownAt] : []),
      ...(loop.window === undefined ? [] : [ringAt, window, first, earlier.length]),
    ],
    own = layout.read(all.length);
  const fill = (): void => {
    layout.put(own, all);
    for (const { values, stride, first: to } of rows)
      for (let r = 0; r < values.rows; r++)
        layout.put(to + 4 * r * stride, values.data.subarray(r * values.columns, (r + 1) * values.columns));
    const before = kept.indexes.get(loop) ?? { data: new Float32Array(0), known: new Uint32Array(G) },
      old = before.data.length / G;
    layout.put(knownAt, before.known);
    for (let g = 0; g < G; g++) layout.put(indexAt + 4 * g * numbers, before.data.subarray(g * old, (g + 1) * old));
    for (const [i, query] of earlier.entries())
      for (let h = 0; h < H; h++)
        layout.put(ringAt + 4 * (h * window + ((first + i) % window)) * d, query.subarray(h * d, (h + 1) * d));
  };
  const save = (): void => {
    const take = (from: number, count: number): Float32Array => layout.f32.slice(from / 4, from / 4 + count);
    for (const { values, stride, first: from } of rows)
      for (let r = 0; r < values.rows; r++)
        values.data.set(take(from + 4 * r * stride, values.columns), r * values.columns);
    if (index)
      kept.indexes.set(loop, {
        data: take(indexAt, G * numbers),
        known: layout.u32.slice(knownAt / 4, knownAt / 4 + G),
      });
  };
  return { own, fill, save };
}

/**
 * Runs the loops of a view over one layer at one step, as an engine does.
 * @throws KvError if a loop meets a score that is not finite
 */
export function runLoops({ loops, budget }: ViewChoice, step: LoopStep, kept: LoopMemory, order: RowOrder): LoopResult {
  const { at, keys, positions, queries } = step,
    { queryHeads: H, kvHeads: G, headDim: d, slots: n } = at,
    stride = Math.max(1024, 4 * Math.ceil(n / 4) + 64),
    room = n + (n % 3), // slots of a KV head
    layout = new Layout();
  const keysAt = layout.read(G * room * d),
    queryAt = layout.read(H * d),
    [scores, lists] = [layout.write(H * stride), layout.write(H * stride)],
    [counts, active, read] = [layout.write(H), layout.write(H), layout.write(H)],
    owns = loops.map((loop) => placeOwn(layout, loop, step, kept)),
    [lengthsAt, positionsAt] = [layout.read(G), layout.read(G * room)],
    evicted = positions.some(({ length }) => length < at.length),
    forced = (end: 'first' | 'last'): number => Math.max(0, ...loops.map(({ forces }) => forces?.[end] ?? 0)),
    words = [
      ...[H, G, d, n, keysAt, room, queryAt, Math.min(budget, at.length), at.step, at.length, at.layer, at.layers],
      ...[scores, stride, lists, counts, active, forced('first'), forced('last')],
      ...[Math.max(0, ...loops.map(({ unit = 0 }) => unit)), read, 0, 0],
      at.step % 2, // every other step keys are not stored as f32
      ...[lengthsAt, evicted ? positionsAt : 0],
    ],
    view = layout.read(words.length);
  layout.allow(view + 4 * BAD_SCORE, 2);

  const scratch = layout.blank(4 * stride + 4096);
  layout.put(view, words);
  for (const [g, own] of positions.entries()) {
    layout.put(keysAt + 4 * g * room * d, keys.subarray(g * n * d, (g * n + own.length) * d));
    if (evicted) layout.put(positionsAt + 4 * g * room, own);
  }
  layout.put(
    lengthsAt,
    positions.map(({ length }) => length),
  );
  layout.put(queryAt, queries[queries.length - 1]);
  for (const zeros of [counts, read]) layout.put(zeros, new Uint32Array(H));
  layout.put(active, new Uint32Array(H).fill(1));
  for (const { fill } of owns) fill();
  const before = layout.kept();

  const functions = loops.map(functionsOf);
  const call = (name: keyof Functions, row: number): void => {
    for (const [i, made] of functions.entries()) {
      layout.f32.fill(SCRATCH, scratch / 4, scratch / 4 + 64);
      made[name]?.(view, owns[i].own, row, scratch);
    }
  };
  const group = H / G,
    spans = Math.ceil(n / SPAN);
  for (const g of order(G)) {
    call('index', g);
    for (const i of order(group)) call('before', g * group + i);
    for (const span of order(spans)) {
      const from = span * SPAN,
        { length } = positions[g];
      if (from >= length) continue;
      for (const [i, made] of functions.entries())
        made.score?.(view, owns[i].own, g, from, Math.min(from + SPAN, length), scratch);
    }
  }
  for (const h of order(H)) {
    if (layout.u32[active / 4 + h] !== 0) call('choose', h);
    call('finish', h);
  }
  for (const h of order(H)) call('after', h);

  const row = layout.u32[view / 4 + BAD_SCORE];
  if (row > 0) throw new KvError('loops', `layer ${at.layer}, query head ${row - 1}: expected finite scores`);
  for (const { save } of owns) save();
  const after = layout.kept();
  let same = 0;
  while (same < after.length && after[same] === before[same]) same++;
  return {
    stray: same === after.length ? undefined : `the word at byte ${4 * same}`,
    read: Array.from({ length: H }, (_, h) => ({
      numbers: layout.u32[read / 4 + h],
      active: layout.u32[active / 4 + h] !== 0,
    })),
    lists: Array.from({ length: H }, (_, h) => {
      const from = lists / 4 + h * stride;
      return Array.from(layout.u32.subarray(from, from + layout.u32[counts / 4 + h]));
    }),
  };
}

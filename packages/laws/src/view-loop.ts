import fc from 'fast-check';
import { KvError } from '@kv/core';
import { cpu, readCpu } from '@kv/cpu';
import { compile, isState, runView, signalKey } from '@kv/core/engine';
import type { AnySignal, LayerContext, Piece, State, StateSpec, ViewChoice, ViewHook } from '@kv/core';
import { range, sumOf } from '@kv/core/shared';
import { claim, lawsOf, TOLERANCE } from './law.ts';
import type { Claims, LawOptions } from './law.ts';
import { random, shuffle } from './random.ts';
import { columnsOf, runLoops } from './run-loops.ts';
import type { LoopMemory, LoopResult, LoopStep, RowOrder, StateNumbers } from './run-loops.ts';

/** Options of `viewLoopLaws`. */
export interface ViewLoopOptions extends Omit<LawOptions, 'signals'> {
  /** Most slots at the first step. @defaultValue 300 */
  readonly slots?: number | undefined;
  /** Most decoded tokens. @defaultValue 12 */
  readonly steps?: number | undefined;
}

/** A text that is decoded: sizes, at which tokens the equation runs on what loops left, and before which slots leave. */
interface Decoding {
  readonly layers: number;
  readonly kvHeads: number;
  /** Query heads per KV head. */
  readonly group: number;
  /** A fourth of a head's channels. */
  readonly fours: number;
  /** Slots at the first step. */
  readonly slots: number;
  readonly equation: readonly boolean[];
  /** Which share of each head's slots leaves before a step; 0: none. */
  readonly leaves: readonly number[];
  /** Tokens that views do not act on, before each step: of a prompt, which is not counted as steps, or generated. */
  readonly others: readonly { readonly tokens: number; readonly generated: boolean }[];
  /** Tokens generated at the first step. */
  readonly first: number;
  readonly seed: number;
}
const decodings = ({ slots = 300, steps = 12 }: ViewLoopOptions): fc.Arbitrary<Decoding> => {
  const size = (max: number): fc.Arbitrary<number> => fc.integer({ min: 1, max });
  return fc.record({
    layers: size(3),
    kvHeads: size(2),
    group: size(3),
    fours: size(3),
    slots: size(slots),
    equation: fc.array(
      fc.nat(5).map((x) => x === 5),
      { minLength: 1, maxLength: steps },
    ),
    leaves: fc.array(fc.oneof(fc.constant(0), fc.constant(0), fc.double({ min: 0.05, max: 0.95, noNaN: true })), {
      maxLength: steps,
    }),
    others: fc.array(fc.record({ tokens: fc.constantFrom(0, 0, 0, 0, 0, 1, 2, 9), generated: fc.boolean() }), {
      maxLength: steps,
    }),
    first: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 20 })),
    seed: fc.nat(0xffff),
  });
};

/** State of one layer, or of the model, by id. */
class States {
  readonly #all = new Map<string, StateNumbers>();
  readonly #rows: (spec: StateSpec) => number;
  constructor(rows: (spec: StateSpec) => number) {
    this.#rows = rows;
  }
  /** Returns a state's numbers, grown to that many columns. */
  of({ id, state }: State, columns: number): StateNumbers {
    const rows = this.#rows(state),
      old = this.#all.get(id);
    if (old && old.columns >= columns) return old;
    const made = { rows, columns, data: new Float32Array(rows * columns).fill(state.init ?? 0) };
    for (let r = 0; old && r < rows; r++)
      made.data.set(old.data.subarray(r * old.columns, (r + 1) * old.columns), r * columns);
    this.#all.set(id, made);
    return made;
  }
  set({ id }: State, values: StateNumbers): void {
    this.#all.set(id, values);
  }
  /** Keeps the columns of these slots in a state by slots. */
  keep({ id }: State, slots: readonly (readonly number[])[]): void {
    const old = this.#all.get(id);
    if (!old) return;
    const columns = Math.max(...slots.map(({ length }) => length)),
      data = new Float32Array(old.rows * columns);
    for (let r = 0; r < old.rows; r++)
      for (const [i, slot] of slots[Math.floor((r * slots.length) / old.rows)].entries())
        data[r * columns + i] = old.data[r * old.columns + slot];
    this.#all.set(id, { rows: old.rows, columns, data });
  }
}

/** A view that is run by its equation or by its loops, with what it keeps in every layer. */
class Run {
  readonly #hook: ViewHook;
  readonly #layers: readonly LoopMemory[];
  readonly #states: readonly States[];
  readonly #model: States;
  constructor(hook: ViewHook, layers: number, rows: (spec: StateSpec) => number) {
    this.#hook = hook;
    this.#model = new States(rows);
    this.#states = Array.from({ length: layers }, () => new States(rows));
    this.#layers = this.#states.map((_, l) => ({
      indexes: new Map(),
      state: (state, columns) => this.#place(state, l).of(state, columns),
    }));
  }
  #place({ state }: State, layer: number): States {
    return state.rows === 'model' ? this.#model : this.#states[layer];
  }
  /** Returns the state of a layer as the equation reads it. */
  state(state: State, at: LayerContext): StateNumbers {
    return this.#place(state, at.layer).of(state, columnsOf(state.state, at));
  }

  /** Forgets all but these slots of each KV head of a layer. */
  keep(layer: number, slots: readonly (readonly number[])[]): void {
    this.#layers[layer].indexes.clear();
    for (const signal of this.#hook.needs.filter(isState))
      if (signal.state.kind === 'slot') this.#place(signal, layer).keep(signal, slots);
  }

  /** Returns the slots that the equation shows to every query head. */
  equation({ at, keys, positions, queries }: LoopStep): readonly (readonly number[])[] {
    const { ops } = cpu,
      { queryHeads: H, kvHeads: G, headDim: d, slots: n } = at,
      counts = Uint32Array.from(positions, ({ length }) => length),
      lengths = ops.from({ data: counts, shape: [G] }, 'u32');
    const read = (signal: AnySignal): unknown => {
      if (isState(signal)) {
        const { data, rows, columns } = this.state(signal, at);
        return ops.from({ data: data.slice(), shape: [rows, columns] });
      }
      if (signal.id === 'keys') return ops.from({ data: keys, shape: [G, n, d] }, 'f32', lengths);
      if (signal.id === 'positions') {
        const data = new Uint32Array(G * n);
        for (const [g, own] of positions.entries()) data.set(own, g * n);
        return ops.from({ data, shape: [G, n] }, 'u32', lengths);
      }
      if (signal.id !== 'queries')
        throw new KvError('laws', `a loop reads keys, queries and state, got the signal ${signalKey(signal)}`);
      const last = queries.slice(-Number(signal.args?.['w'] ?? 1)),
        data = new Float32Array(H * last.length * d);
      for (const [i, query] of last.entries())
        for (let h = 0; h < H; h++) data.set(query.subarray(h * d, (h + 1) * d), (h * last.length + i) * d);
      return ops.from({ data, shape: [H, last.length, d] });
    };
    const { mask, state } = runView(this.#hook, { at, ops, read });
    for (const [id, tensor] of state ?? []) {
      const signal = this.#hook.needs.find((s): s is State => s.id === id && isState(s))!, // runView has checked it
        { data, shape } = readCpu(tensor);
      this.#place(signal, at.layer).set(signal, {
        rows: shape[0],
        columns: shape[1],
        data: Float32Array.from(data),
      });
    }
    const { data, shape } = readCpu(mask!); // of a view over a selector
    return Array.from({ length: H }, (_, h) => {
      const from = shape[0] === 1 ? 0 : h * n;
      return Array.from({ length: counts[Math.floor((h * G) / H)] }, (__, i) => i).filter((i) => data[from + i] !== 0);
    });
  }
  /** Returns what the loops list for every query head. */
  loops(choice: ViewChoice, step: LoopStep, order: RowOrder): LoopResult {
    return runLoops(choice, step, this.#layers[step.at.layer], order);
  }
}

/** A step, and the slots of each KV head that its layer keeps before it, unless none leaves. */
interface TextStep extends LoopStep {
  /** Whether the equation runs, whatever the loops say. */
  readonly equation: boolean;
  readonly kept: readonly (readonly number[])[] | undefined;
}

/**
 * Returns the steps of a text. Numbers are whole eighths, so that products are exact in any order; keys repeat, and
 * queries are often like earlier ones.
 */
function* stepsOf(spec: Decoding, budget: number): Generator<TextStep> {
  const { layers, kvHeads: G, group, fours, slots, equation, leaves, others, first, seed } = spec,
    H = G * group,
    d = 4 * fours,
    next = random(seed),
    fed = equation.map((_, i) => sumOf(others.slice(0, i + 1).map(({ tokens }) => tokens))),
    skipped = equation.map((_, i) =>
      sumOf(others.slice(0, i + 1).map(({ tokens, generated }) => (generated ? tokens : 0))),
    ),
    all = slots + equation.length - 1 + fed[equation.length - 1];
  const vector = (numbers: number): Float32Array =>
    Float32Array.from({ length: numbers }, () => Math.floor(17 * next() - 8) / 8);
  const keys = Array.from({ length: layers * G }, () => {
    const rows = vector(all * d);
    for (let i = 1; i < all; i++) if (next() < 0.3) rows.copyWithin(i * d, Math.floor(next() * i) * d, i * d);
    return rows;
  });
  const topics = Array.from({ length: layers }, () => [vector(H * d), vector(H * d), new Float32Array(H * d)]),
    asked: Float32Array[][] = topics.map(() => []),
    held = keys.map(() => Array.from({ length: slots - 1 }, (_, position) => position));
  for (let i = 0; i < equation.length; i++)
    for (let layer = 0; layer < layers; layer++) {
      const rows = Array.from(range(layer * G, G)),
        share = leaves[i] ?? 0,
        kept = rows.map((row) => [...held[row].keys()].filter(() => share === 0 || next() >= share));
      const length = slots + i + fed[i],
        joined = i === 0 ? slots - 1 : slots - 1 + i + fed[i - 1];
      for (const [g, row] of rows.entries())
        held[row] = [...kept[g].map((slot) => held[row][slot]), ...range(joined, length - joined)];
      const n = Math.max(...rows.map((row) => held[row].length)),
        query = topics[layer][Math.floor(2.2 * next())].slice();
      for (let c = 0; c < query.length; c++) if (next() < 0.15) query[c] = Math.floor(17 * next() - 8) / 8;
      asked[layer].push(query);
      const own = new Float32Array(G * n * d);
      for (const [g, row] of rows.entries())
        for (const [slot, position] of held[row].entries())
          own.set(keys[row].subarray(position * d, (position + 1) * d), (g * n + slot) * d);
      yield {
        equation: equation[i],
        kept: share > 0 ? kept : undefined,
        keys: own,
        positions: rows.map((row) => Uint32Array.from(held[row])),
        queries: asked[layer],
        at: {
          ...{ layer, layers, queryHeads: H, kvHeads: G, headDim: d, step: first + i + skipped[i] },
          ...{ promptLength: slots - 1, length, slots: n, budget, selectRows: H },
          aligned: rows.every((row) => String(held[row]) === String(held[rows[0]])),
        },
      };
    }
}

interface Judged {
  readonly at: LayerContext;
  readonly hook: ViewHook;
  /** Slots of the KV head of each query head. */
  readonly slots: readonly number[];
  /** What the equation shows, and the run that it belongs to. */
  readonly wanted: Run;
  readonly want: readonly (readonly number[])[];
  /** The same of the loops. */
  readonly made: Run;
  readonly got: readonly (readonly number[])[];
  /** What else the loops left, where they did not rest. */
  readonly result: LoopResult | undefined;
}
const inOrder: RowOrder = (rows) => Array.from({ length: rows }, (_, r) => r);

/** Decodes a text by the equation and by the loops, which rest at some steps, and judges every layer of every step. */
function decode(policy: Piece<any, any>, spec: Decoding, judge: (of: Judged) => void, shuffled = false): void {
  const hook = compile(policy)
      .hooks('view')
      .find(({ chooses }) => chooses),
    choice = hook?.chooses;
  if (!hook || !choice)
    throw new KvError(policy.label, 'expected a view whose pieces all have loops, got one whose equation always runs');
  const H = spec.kvHeads * spec.group,
    rows = ({ rows: of }: StateSpec): number => ({ query: H, kv: spec.kvHeads, layer: 1, model: 1 })[of],
    next = random(spec.seed),
    [wanted, made] = [new Run(hook, spec.layers, rows), new Run(hook, spec.layers, rows)];
  for (const step of stepsOf(spec, choice.budget)) {
    const { at } = step;
    if (step.kept) for (const run of [wanted, made]) run.keep(at.layer, step.kept);
    if (!choice.acts(at)) continue;
    const first = (state: State): number => made.state(state, at).data[0],
      rests = step.equation || choice.loops.some((loop) => loop.rests?.(at, first));
    const natural = (run: Run): readonly (readonly number[])[] =>
      rests ? run.equation(step) : run.loops(choice, step, inOrder).lists;
    const want = shuffled ? natural(wanted) : wanted.equation(step);
    const order: RowOrder = shuffled ? (n) => shuffle(n, next) : inOrder;
    const result = rests ? undefined : made.loops(choice, step, order);
    const slots = Array.from({ length: H }, (_, h) => step.positions[Math.floor(h / spec.group)].length);
    judge({ at, hook, slots, wanted, want, made, got: result?.lists ?? made.equation(step), result });
  }
}

const placeOf = ({ layer, step }: LayerContext): string => `step ${step}, layer ${layer}`;
/** Lists and the query's own slot are equal; lists ascend over slots that exist. */
function sameSlots({ at, slots, want, got }: Judged): void {
  for (const [h, list] of got.entries()) {
    const n = slots[h],
      where = `${placeOf(at)}, query head ${h}`;
    claim(
      list.every((slot, i) => slot < n && (i === 0 || slot > list[i - 1])),
      () => `${where}: expected ascending slots below ${n}, got [${list.join(', ')}]`,
    );
    const [shown, wanted] = [list, want[h]].map((slots) => slots.filter((slot) => slot !== n - 1).join(', '));
    claim(shown === wanted, () => `${where}: expected the slots [${wanted}], got [${shown}]`);
  }
}
/** All states are equal, those of fewer columns filled with their first value; the model's once a step ends. */
function sameStates({ at, slots, hook, wanted, made }: Judged, tolerance: number): void {
  for (const signal of hook.needs.filter(isState)) {
    if (signal.state.rows === 'model' && at.layer < at.layers - 1) continue;
    const { rows, columns, data } = wanted.state(signal, at),
      got = made.state(signal, at),
      { init = 0 } = signal.state,
      most = Math.max(columns, got.columns);
    for (let i = 0; i < rows * most; i++) {
      const [r, c] = [Math.floor(i / most), i % most];
      if (signal.state.kind === 'slot' && c >= slots[Math.floor((r * slots.length) / rows)]) continue;
      const x = c < columns ? data[r * columns + c] : init,
        y = c < got.columns ? got.data[r * got.columns + c] : init;
      if (!(Math.abs(x - y) <= tolerance * Math.max(1, Math.abs(x))))
        throw new Error(`${placeOf(at)}: expected ${x} in row ${r}, column ${c} of the state '${signal.as}', got ${y}`);
    }
  }
}

/** Rows count what they read as predicted. */
function sameCounts({ at, slots, hook, result }: Judged): void {
  for (const [h, { numbers, active }] of result?.read.entries() ?? []) {
    const own = { ...at, slots: slots[h] },
      want = sumOf(hook.chooses!.loops.map(({ reads }) => reads?.(own) ?? 0)); // a view with loops
    claim(
      active ? numbers === want : numbers <= want,
      () => `${placeOf(at)}, query head ${h}: expected ${want} numbers read, as predicted, got ${numbers}`,
    );
  }
}

/** Claims about the loops of a view, which run in an engine's memory, against its equation. */
export const viewLoop = {
  /** They show the slots that the equation shows. */
  shown: (policy, options = {}) => fc.property(decodings(options), (spec) => decode(policy, spec, sameSlots)),
  /** They leave the state that the equation leaves; either goes on from the other's at any step. */
  states: (policy, options = {}) =>
    fc.property(decodings(options), (spec) =>
      decode(policy, spec, (of) => sameStates(of, options.tolerance ?? TOLERANCE)),
    ),
  /** Rows may run in any order: none reads what another writes in the same phase. */
  order: (policy, options = {}) =>
    fc.property(decodings(options), (spec) =>
      decode(
        policy,
        spec,
        (of) => {
          sameSlots(of);
          sameStates(of, 0);
        },
        true,
      ),
    ),
  /** They write their states and indexes, scores, lists and scratch, and nothing else. */
  within: (policy, options = {}) =>
    fc.property(decodings(options), (spec) =>
      decode(policy, spec, ({ at, result }) =>
        claim(
          result?.stray === undefined,
          () => `${placeOf(at)}: expected other memory unchanged, got a write to ${result?.stray}`,
        ),
      ),
    ),
  /** A row that chooses counts the numbers of keys and indexes that its loops' `reads` predicts; no other counts more. */
  counted: (policy, options = {}) => fc.property(decodings(options), (spec) => decode(policy, spec, sameCounts)),
} satisfies Claims<Piece<any, any>, ViewLoopOptions>;

/** The laws of a view's loops. */
export const viewLoopLaws = lawsOf<Piece<any, any>, ViewLoopOptions>(viewLoop, ['slots', 'steps']);

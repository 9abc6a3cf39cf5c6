import fc from 'fast-check';
import { compose, selector } from '@kv/core';
import { compile, emptyDraft, isState, showValue } from '@kv/core/engine';
import type { AnySignal, LayerContext, Ops, Piece, Tensor } from '@kv/core';
import { cpu, readCpu } from '@kv/cpu';
import { claim, lawsOf } from './law.ts';
import type { Claim, Claims, LawOptions, Suite } from './law.ts';
import { random, shuffle, vectors } from './random.ts';
import { scene, sceneSpecs } from './scene.ts';
import type { Layer, SceneSpec } from './scene.ts';
import { realise, selectSpecs } from './selection.ts';
import { onCpu, rowsOf, stage } from './stage.ts';

/** A hook that refits what a selection keeps: it gives new values, biases, or both before compaction. */
export type AnyRefit = Piece;

/** Options of `refitLaws`. */
export interface RefitOptions extends LawOptions {
  /** What a layer differs in, such as a soft cap. @defaultValue nothing */
  readonly at?: ((at: LayerContext) => Partial<LayerContext>) | undefined;
  /**
   * Returns the queries `[H, w, d]` that the piece refits to, in order, and their positions, from the layer's last queries.
   * @defaultValue these, where they stand
   */
  readonly reference?: ((last: Float32Array, at: LayerContext, layer: Layer) => RefitReference) | undefined;
}
/** Reference queries `[H, w, d]` and their w positions. */
export interface RefitReference {
  readonly queries: Float32Array;
  readonly positions: readonly number[];
}

/** A layer's numbers, and the slots that a selection keeps in each head. */
interface RefitCase {
  readonly at: LayerContext;
  readonly layer: Layer;
  readonly lengths: readonly number[];
  /** Slots of a row. */
  readonly n: number;
  /** The last queries `[H, w, d]`. */
  readonly q: Float32Array;
  readonly keys: Float32Array;
  readonly values: Float32Array;
  readonly positions: Uint32Array;
  readonly biases: Float32Array;
  readonly kept: readonly (readonly number[])[];
}
type RefitNumbers = Pick<RefitCase, 'values' | 'biases'>;

const hookOf = (piece: AnyRefit) => compile(piece).hooks('compact')[0];
/** Reference queries that the piece reads; as many as this if it reads none. */
const queriesOf = (piece: AnyRefit): number =>
  Number(hookOf(piece)?.needs.find(({ id }) => id === 'queries')?.args?.['w'] ?? 4);

/** A random layer, some of whose slots have biases already. */
const caches = (piece: AnyRefit, { at: own }: RefitOptions): fc.Arbitrary<RefitCase> =>
  fc.tuple(sceneSpecs({ layers: 1 }), fc.constantFrom(0, 0.3, 0.6, 0.8, 1)).map(([spec, share]) => {
    const [layer] = scene(mild(spec)).layers,
      { at, lengths, keys, values, positions } = layer,
      next = random(layer.seed),
      // an engine gives as many as it has seen
      w = Math.min(queriesOf(piece), at.length),
      biased = next() < 0.5;
    return {
      layer,
      lengths,
      keys,
      values,
      positions,
      at: { ...at, ...own?.(at) },
      n: at.slots,
      q: Float32Array.from(vectors('spread', at.queryHeads * w, at.headDim, next)),
      biases: Float32Array.from({ length: lengths.length * at.slots }, () => (biased ? 2 * next() - 1 : 0)),
      kept: lengths.map((count) => Array.from({ length: count }, (_, i) => i).filter(() => next() < share)),
    };
  });
/** Logits of long vectors are of one slot alone. */
const mild = (spec: SceneSpec): SceneSpec => (spec.vectors === 'long' ? { ...spec, vectors: 'spread' } : spec);

/** Returns the values and biases that a piece leaves. */
function refit(
  piece: AnyRefit,
  cache: RefitCase,
  options: RefitOptions,
): RefitNumbers & { readonly keys: Float32Array } {
  const { at, lengths, n, q, kept } = cache,
    G = lengths.length,
    { ops } = cpu,
    rows = ops.from({ data: Uint32Array.from(lengths), shape: [G] }, 'u32'),
    slots = (data: Float32Array | Uint32Array, ...rest: number[]): Tensor =>
      ops.from({ data: data.slice(), shape: [G, n, ...rest] }, data instanceof Uint32Array ? 'u32' : 'f32', rows),
    marks = Float32Array.from({ length: G * n }, (_, i) => Number(kept[Math.floor(i / n)].includes(i % n)));
  const own = stage({ spec: {} as SceneSpec, layers: [{ ...cache.layer, ...cache, at }] }, ops, options).layers[0];
  const read = (signal: AnySignal): unknown => {
    const given = isState(signal) ? undefined : options.signals?.(signal, cache.layer, ops);
    if (given !== undefined) return given;
    if (signal.id === 'keys' || signal.id === 'values') return slots(cache[signal.id], at.headDim);
    if (signal.id === 'positions' || signal.id === 'biases') return slots(cache[signal.id]);
    if (signal.id === 'queries')
      return ops.from({ data: q.slice(), shape: [at.queryHeads, q.length / (at.queryHeads * at.headDim), at.headDim] });
    return own.read(signal);
  };
  const layer = { at, budgets: kept.map(({ length }) => length), read },
    budgets = ops.from({ data: Float32Array.from(kept, ({ length }) => length), shape: [G, 1] }),
    made = hookOf(piece)?.run({
      at,
      ops: ops as Ops,
      draft: emptyDraft(layer, ops),
      kept: ops.select(slots(marks), budgets),
      read: read as never,
    });
  claim(
    typeof made === 'object' && made !== null,
    () => `'${piece.label}': expected keys, values or biases, got ${showValue(made)}`,
  );
  const other = Object.keys(made).find((name) => !['keys', 'values', 'biases'].includes(name));
  claim(other === undefined, () => `'${piece.label}': expected keys, values or biases, got '${other}'`);
  const of = (name: 'keys' | 'values' | 'biases'): Float32Array => {
    const tensor = made?.[name];
    return tensor ? (readCpu(tensor).data as Float32Array) : cache[name];
  };
  return { keys: of('keys'), values: of('values'), biases: of('biases') };
}

/** MatchErrors of a head's reference queries over the kept slots, against what they had over all: Σ of squares. */
interface MatchErrors {
  /** Of the mass, relative to each query's largest logit. */
  readonly mass: number;
  readonly output: number;
  /** Σ of squares of what is approximated. */
  readonly masses: number;
  readonly outputs: number;
}

/** Plain loops in float64: errors of KV head g with these values and biases of the kept slots. */
function errorsOf(
  { at, n, q: last, keys, values, positions, biases, lengths, kept, layer }: RefitCase,
  g: number,
  to: RefitNumbers,
  { reference }: RefitOptions,
): MatchErrors {
  const { headDim: d, queryHeads: H, kvHeads: G, length, softcap, window = Infinity, learnedSinks } = at,
    { scale = 1 / Math.sqrt(d) } = at,
    had = last.length / (H * d),
    { queries: q, positions: times } = reference?.(last, at, layer) ?? {
      queries: last,
      positions: Array.from({ length: had }, (_, i) => length - had + i),
    },
    w = times.length,
    sum = { mass: 0, output: 0, masses: 0, outputs: 0 };
  for (let h = (g * H) / G; h < ((g + 1) * H) / G; h++)
    for (let i = 0; i < w; i++) {
      const time = times[i],
        all = Array.from({ length: lengths[g] }, (_, j) => j).filter((j) => {
          const age = time - positions[g * n + j];
          return age >= 0 && age < window;
        });
      const logit = (j: number): number => {
        let dot = 0;
        for (let c = 0; c < d; c++) dot += q[(h * w + i) * d + c] * keys[(g * n + j) * d + c];
        return softcap === undefined ? dot * scale : softcap * Math.tanh((dot * scale) / softcap);
      };
      const sink = learnedSinks?.[h] ?? -Infinity,
        top = all.reduce((most, j) => Math.max(most, logit(j) + biases[g * n + j]), sink);
      if (top === -Infinity) continue;
      /** Mass, and output, over some slots. */
      const over = (slots: readonly number[], { biases: b, values: v }: RefitNumbers): readonly [number, number[]] => {
        let mass = 0;
        const mixed = new Array<number>(d).fill(0);
        for (const j of slots) {
          const weight = Math.exp(logit(j) + b[g * n + j] - top);
          mass += weight;
          for (let c = 0; c < d; c++) mixed[c] += weight * v[(g * n + j) * d + c];
        }
        const total = mass + Math.exp(sink - top);
        return [mass, mixed.map((x) => (total === 0 ? 0 : x / total))];
      };
      const [y, Y] = over(all, { biases, values }),
        [z, Z] = over(
          all.filter((j) => kept[g].includes(j)),
          to,
        );
      sum.mass += (z - y) ** 2;
      sum.masses += y ** 2;
      for (let c = 0; c < d; c++) sum.output += (Z[c] - Y[c]) ** 2;
      for (let c = 0; c < d; c++) sum.outputs += Y[c] ** 2;
    }
  return sum;
}

type Property = Claim<AnyRefit, RefitOptions>;
const heads = ({ lengths }: RefitCase): number[] => lengths.map((_, g) => g);
/** Claims that the kept slots of a refitted cache have these values and biases. */
function expectSame(
  what: string,
  { at: { headDim: d }, n, kept }: RefitCase,
  got: RefitNumbers,
  want: RefitNumbers,
): void {
  const near = (x: number, y: number): boolean => Math.abs(x - y) <= 1e-5 * Math.max(1, Math.abs(y));
  kept.forEach((list, g) =>
    list.forEach((j) => {
      const at = g * n + j;
      claim(
        near(got.biases[at], want.biases[at]),
        () => `${what}: head ${g}, slot ${j} has the bias ${got.biases[at]}, expected ${want.biases[at]}`,
      );
      for (let c = at * d; c < (at + 1) * d; c++)
        claim(
          near(got.values[c], want.values[c]),
          () => `${what}: head ${g}, slot ${j} has the value ${got.values[c]}, expected ${want.values[c]}`,
        );
    }),
  );
}
/** A claim that an error over the kept slots is at most that of the kept slots as they were. */
const noWorse =
  (what: 'mass' | 'output', size: 'masses' | 'outputs'): Property =>
  (piece, options = {}) =>
    fc.property(caches(piece, options), (cache) => {
      const to = refit(piece, cache, options);
      for (const g of heads(cache)) {
        const [got, was] = [to, cache].map((of) => errorsOf(cache, g, of, options));
        // what f32 can tell
        const most = (Math.sqrt(was[what]) + 1e-4 * Math.sqrt(was[size]) + 1e-5) ** 2;
        claim(
          got[what] <= most,
          () =>
            `head ${g}: the error of the ${what} is ${got[what]}, expected at most ${was[what]}, that of the kept slots`,
        );
      }
    });

/** Returns a cache of the kept slots alone. */
const compacted = (cache: RefitCase, { values, biases }: RefitNumbers): RefitCase => {
  const { n, at, kept } = cache,
    d = at.headDim,
    from = (data: Float32Array | Uint32Array, width: number): Float32Array => {
      const to = new Float32Array(data.length);
      kept.forEach((list, g) =>
        list.forEach((j, i) =>
          to.set(data.subarray((g * n + j) * width, (g * n + j + 1) * width), (g * n + i) * width),
        ),
      );
      return to;
    };
  return {
    ...cache,
    lengths: kept.map(({ length }) => length),
    keys: from(cache.keys, d),
    values: from(values, d),
    biases: from(biases, 1),
    positions: Uint32Array.from(from(cache.positions, 1)),
    kept: kept.map((list) => list.map((_, i) => i)),
  };
};

const best = selector('best', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks))();

/** What every piece promises that refits the kept slots to reference queries. */
export const refitting: Claims<AnyRefit, RefitOptions> = {
  /** Where all slots are kept, their biases and values stay. */
  whole: (piece, options = {}) =>
    fc.property(caches(piece, options), (some) => {
      const cache = { ...some, kept: some.lengths.map((n) => Array.from({ length: n }, (_, i) => i)) };
      expectSame('all slots are kept', cache, refit(piece, cache, options), cache);
    }),
  /** The mass of the kept slots is no further from that of all than it was. */
  mass: noWorse('mass', 'masses'),
  /** Outputs over the kept slots are no further from those over all than they were. */
  output: noWorse('output', 'outputs'),
  /** The same slots stay as without it, with their keys. */
  slots: (piece, options = {}) => {
    const both = compose(best, piece as Piece<'kept', 'same'>) as Piece;
    return fc.property(selectSpecs(best as Piece), caches(piece, options), (spec, cache) => {
      const c = realise(spec),
        [with_, without] = [both, best as Piece].map((of) =>
          onCpu(of, c.on, options, c.given).map(({ kept }, l) => {
            claim(kept !== undefined, () => `'${piece.label}' left no kept slots`);
            const { data, slots, valid } = rowsOf(kept, c.on.layers[l]);
            return valid.map((n, r) => Array.from(data.subarray(r * slots, r * slots + n)).join(' '));
          }),
        );
      claim(
        JSON.stringify(with_) === JSON.stringify(without),
        () => `expected the kept slots ${JSON.stringify(without)}, got ${JSON.stringify(with_)}`,
      );
      const { keys } = refit(piece, cache, options);
      claim(
        keys.every((x, i) => x === cache.keys[i]),
        () => 'expected the keys as they were, got others',
      );
    });
  },
  /** After itself, on the same queries, it changes nothing. */
  idempotent: (piece, options = {}) =>
    fc.property(caches(piece, options), (cache) => {
      const to = refit(piece, cache, options),
        once = compacted(cache, to);
      fc.pre(to.values.some((x, i) => x !== cache.values[i]) || to.biases.some((x, i) => x !== cache.biases[i]));
      expectSame('it ran twice', once, refit(piece, once, options), once);
    }),
  /** The order of slots does not count, where all queries see all of them. */
  order: (piece, options = {}) =>
    fc.property(caches(piece, options), (some) => {
      const { window: _, ...of } = some.at,
        cache = { ...some, at: { ...of, length: of.length + queriesOf(piece) } },
        { lengths, n, at, kept } = cache,
        d = at.headDim,
        next = random(cache.layer.seed + 5),
        orders = lengths.map((count) => shuffle(count, next)),
        move = <A extends Float32Array | Uint32Array>(data: A, width: number): A => {
          const to = data.slice() as A;
          orders.forEach((order, g) =>
            order.forEach((j, i) =>
              to.set(data.subarray((g * n + j) * width, (g * n + j + 1) * width), (g * n + i) * width),
            ),
          );
          return to;
        };
      const moved = {
        ...cache,
        keys: move(cache.keys, d),
        values: move(cache.values, d),
        biases: move(cache.biases, 1),
        kept: kept.map((list, g) => orders[g].flatMap((j, i) => (list.includes(j) ? [i] : []))),
      };
      const want = refit(piece, cache, options),
        got = refit(piece, moved, options);
      // the errors, since where queries are fewer than slots rounding decides what is fitted
      for (const g of heads(cache)) {
        const [a, b] = [errorsOf(cache, g, want, options), errorsOf(moved, g, got, options)];
        for (const [what, size] of [
          ['mass', 'masses'],
          ['output', 'outputs'],
        ] as const)
          claim(
            Math.abs(Math.sqrt(a[what]) - Math.sqrt(b[what])) <= 1e-3 * Math.sqrt(a[size]) + 1e-4,
            () => `head ${g}: the error of the ${what} is ${b[what]} in another order, expected ${a[what]}`,
          );
      }
    }),
};

/**
 * Returns the laws of a hook that refits what a selection keeps to reference queries: nothing changes where all is kept, no
 * error on the queries grows, the same slots stay, twice is once, and the order of slots does not count.
 */
export const refitLaws: (piece: AnyRefit, options?: RefitOptions) => Suite = lawsOf(refitting, ['at', 'reference']);

import fc from 'fast-check';
import { KvError } from '@kv/core';
import { cpu } from '@kv/cpu';
import { countedOps } from '@kv/core/engine';
import { scratchBytes } from '@kv/cpu/engine';
import type { AnySignal, OptionForm, Ops, Options, Piece, Rope } from '@kv/core';
import type { OperationCount } from '@kv/core/engine';
import { claim, lawsOf } from './law.ts';
import type { Claims, LawOptions } from './law.ts';
import { random, simplex, vectors } from './random.ts';
import { scene, sceneSpecs } from './scene.ts';
import type { Layer, Scene } from './scene.ts';
import { play, stage } from './stage.ts';
import type { StartNumbers } from './stage.ts';

/** Options and the function that makes a piece, or a composition around it, from them. */
export interface OptionSubject {
  readonly options: Options;
  /** @throws KvError for options that do not go together */
  make(chosen: Readonly<Record<string, unknown>>): Piece;
}
/** Options of `boundedLaws`. */
export interface BoundedOptions extends LawOptions {
  /** Allowed cost relative to that of the default options, per slot of the scene plus one. @defaultValue 16 */
  readonly times?: number | undefined;
}

/** The first whole number beyond any option: devices count in 32 bits. */
const COUNTED = 2 ** 32;
/** Bytes that the memory of operations may grow by in a scene of a dozen slots. */
const SCRATCH = 2 ** 20;

/** Returns values of an option: its greatest, its least, and some between. */
function valuesOf(form: OptionForm): fc.Arbitrary<unknown> | undefined {
  if (form.sort === 'flag') return fc.boolean();
  if (form.sort === 'word') return fc.constantFrom(...form.words);
  if (form.sort !== 'number') return undefined;
  const { open, odd = false, whole = false, wholeFrom = Infinity, words = [] } = form,
    most = whole || wholeFrom < Infinity ? Math.min(form.most, COUNTED - 1) : Math.min(form.most, Number.MAX_VALUE),
    least = Math.max(form.least, -Number.MAX_VALUE);
  const fitted = (x: number): number => {
    const n = whole || x >= wholeFrom ? Math.floor(x) : x;
    return odd && n % 2 === 0 ? n - 1 : n;
  };
  const inside = (x: number): boolean =>
    x >= least && x <= most && !(open === 'least' && x === form.least) && !(open === 'most' && x === form.most);
  const between = fc
    .double({ min: 0, max: 1, noNaN: true })
    .map((t) => fitted(Math.max(least, 0) + Math.min(most - Math.max(least, 0), 2 ** (32 * t) - 1)));
  return fc
    .oneof(fc.constantFrom(fitted(most), least, ...words), between)
    .filter((x) => typeof x === 'string' || inside(x));
}

/** Returns options, each at its default or at an allowed value. */
function choices(options: Options): fc.Arbitrary<Readonly<Record<string, unknown>>> {
  const all = Object.entries(options).flatMap(([name, { form }]) => {
    const values = valuesOf(form);
    return values ? [[name, values] as const] : [];
  });
  return fc.record(Object.fromEntries(all), { requiredKeys: [] });
}

/** Returns the options with no number above a million, still odd where that is required. */
const tamed = (chosen: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries(chosen).map(([name, x]) => [name, typeof x === 'number' ? Math.min(x, 1_000_001) : x]),
  );

/** Returns random start scores, on KV rows. */
const scores = ({ layers, spec }: Scene): readonly StartNumbers[] =>
  layers.map(({ at, lengths, seed }) => {
    const next = random(seed + 3);
    return {
      rows: at.kvHeads,
      scores: Float32Array.from(
        lengths.flatMap((n) => [...simplex(spec.weights, n, next), ...new Array<number>(at.slots - n).fill(0)]),
      ),
    };
  });

/** Returns the cost of a piece in a scene; what it asks of the host, such as angles of positions, counts as numbers. */
function taken(piece: Piece, on: Scene, { signals }: LawOptions): OperationCount & { readonly scratch: number } {
  const { ops, work } = countedOps(cpu.ops),
    before = scratchBytes();
  /** Signals as engines give them: no more queries than there were tokens. */
  const own = (signal: AnySignal, layer: Layer, by: Ops): unknown => {
    const given = signals?.(signal, layer, by);
    if (given !== undefined) return given;
    const { headDim: d, queryHeads: H, length } = layer.at;
    if (signal.id === 'queries') {
      const w = Math.min(length, Number(signal.args?.['w'] ?? 1));
      const data = Float32Array.from(vectors('spread', H * w, d, random(layer.seed)));
      return by.from({ data, shape: [H, w, d] });
    }
    if (signal.id !== 'rope') return undefined;
    const half = Math.floor(d / 2);
    const angles: Rope['angles'] = (positions) => {
      work.numbers += 2 * half * positions.length;
      const turns = Float32Array.from({ length: positions.length * half }, (_, i) => positions[Math.floor(i / half)]);
      return { cos: turns.map(Math.cos), sin: turns.map(Math.sin) };
    };
    return { rotary: 2 * half, angles };
  };
  play(piece, stage(on, ops, { signals: own }, piece.from.includes('start') ? [] : scores(on)), ops);
  return { ...work, scratch: scratchBytes() - before };
}

/** Claims about the cost of a piece under any options. */
export const boundedClaims = {
  /**
   * Calls, numbers and operations are at most `times` (n + 1) times those of the default options over n slots, and the
   * memory of operations grows by at most 1 MiB, for any options.
   */
  work: ({ options, make }, o = {}) =>
    fc.property(sceneSpecs(), choices(options), (spec, chosen) => {
      const on = scene(spec),
        most = (o.times ?? 16) * (spec.slots + 1);
      const run = (of: Readonly<Record<string, unknown>>): ReturnType<typeof taken> | undefined => {
        try {
          return taken(make(of), on, o);
        } catch (error) {
          if (KvError.is(error)) return undefined; // refused with a sentence, which costs nothing
          throw error;
        }
      };
      const usual = run({});
      // cost that grows with an option shows at a million already; only then try up to 2^32
      for (const some of [tamed(chosen), chosen]) {
        const got = run(some);
        fc.pre(usual !== undefined && got !== undefined);
        for (const of of ['calls', 'numbers', 'operations'] as const)
          claim(
            got[of] <= most * usual[of],
            () => `expected at most ${most} times the ${usual[of]} ${of} of the default options, got ${got[of]}`,
          );
        claim(got.scratch <= SCRATCH, () => `expected at most ${SCRATCH} bytes more to work in, got ${got.scratch}`);
      }
    }),
} satisfies Claims<OptionSubject, BoundedOptions>;

/** The laws that cost is bounded by slots for any options of a factory. */
export const boundedLaws = lawsOf<OptionSubject, BoundedOptions>(boundedClaims, ['times']);

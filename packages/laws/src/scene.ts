import fc from 'fast-check';
import type { LayerContext, Tokens } from '@kv/core';
import { random, shuffle, simplex, vectors, VECTORS, WEIGHTS } from './random.ts';
import type { VectorKind, WeightKind } from './random.ts';

/** The sizes and kinds of numbers of a random cache; the numbers follow from them and the seed. */
export interface SceneSpec {
  readonly layers: number;
  readonly kvHeads: number;
  /** Query heads per KV head. */
  readonly group: number;
  readonly slots: number;
  readonly dim: number;
  /** Heads hold different tokens, and different numbers of them. */
  readonly ragged: boolean;
  /** Number of tokens evicted earlier: positions have gaps. */
  readonly evicted: number;
  /** Slots per KV head asked for, 0 .. slots + 3. */
  readonly budget: number;
  readonly weights: WeightKind;
  readonly vectors: VectorKind;
  readonly seed: number;
}
/** Numbers of one layer, row-major, padded to `slots` per row. */
export interface Layer {
  readonly at: LayerContext;
  /** Valid slots of each KV head. */
  readonly lengths: readonly number[];
  readonly keys: Float32Array;
  readonly values: Float32Array;
  /** Rows of weights that sum to 1, `[H, n]`. */
  readonly attention: Float32Array;
  readonly positions: Uint32Array;
  readonly tokens: Tokens;
  readonly seed: number;
}
/** A random cache: its sizes, and the contents of each layer. */
export interface Scene {
  readonly spec: SceneSpec;
  readonly layers: readonly Layer[];
}

/** Bounds of random caches. */
export interface SceneOptions {
  /** Most layers. @defaultValue 2 */
  readonly layers?: number;
  /** Whether heads may hold different numbers of slots. @defaultValue true */
  readonly ragged?: boolean;
  /** Most slots of a head. @defaultValue 12 */
  readonly slots?: number;
}
/** Sizes of random caches: 1 to 12 slots, 1 to 3 KV heads of 1 to 3 query heads each, aligned or ragged. */
export function sceneSpecs({
  layers = 2,
  ragged = true,
  slots: most = 12,
}: SceneOptions = {}): fc.Arbitrary<SceneSpec> {
  const size = (max: number): fc.Arbitrary<number> => fc.integer({ min: 1, max });
  return size(most).chain((slots) =>
    fc.record({
      layers: size(layers),
      kvHeads: size(3),
      group: size(3),
      slots: fc.constant(slots),
      dim: size(4),
      ragged: ragged ? fc.boolean() : fc.constant(false),
      evicted: fc.nat(3),
      budget: fc.nat(slots + 3),
      weights: fc.constantFrom(...WEIGHTS),
      vectors: fc.constantFrom(...VECTORS),
      seed: fc.nat(0xffff),
    }),
  );
}

const WORDS = ['The', ' key', ':', ' XK7', '.', ' said', '\n', ' password', ' is', ' the'];
function text(length: number, next: () => number): Tokens {
  const ids = Array.from({ length }, () => Math.floor(next() * WORDS.length)),
    offsets: [number, number][] = [];
  let all = '';
  for (const i of ids) {
    offsets.push([all.length, all.length + WORDS[i].length]);
    all += WORDS[i];
  }
  return { ids, text: all, offsets };
}

/**
 * Returns the numbers of a scene; `pad` fills every slot beyond a row's length.
 * @param pad number in every slot beyond a row's length. @defaultValue 0
 */
export function scene(spec: SceneSpec, pad = 0): Scene {
  const { kvHeads, group, slots, dim, ragged, evicted } = spec,
    heads = kvHeads * group,
    length = slots + evicted;
  const tokens = text(length, random(spec.seed));
  const layers = Array.from({ length: spec.layers }, (_, layer): Layer => {
    const next = random(spec.seed * 31 + layer + 1);
    const longest = Math.floor(next() * kvHeads);
    const lengths = Array.from({ length: kvHeads }, (_, g) =>
      ragged && g !== longest ? 1 + Math.floor(next() * slots) : slots,
    );
    const alike = shuffle(length, next);
    const positions = lengths.flatMap((n) =>
      row(
        slots,
        (ragged ? shuffle(length, next) : alike).slice(0, n).sort((a, b) => a - b),
        0,
      ),
    );
    const padded = (): number[] => lengths.flatMap((n) => row(slots * dim, vectors(spec.vectors, n, dim, next), pad));
    return {
      lengths,
      tokens,
      seed: spec.seed * 31 + layer + 7,
      positions: Uint32Array.from(positions),
      keys: Float32Array.from(padded()),
      values: Float32Array.from(padded()),
      attention: Float32Array.from(
        Array.from({ length: heads }, (_, h) =>
          row(slots, simplex(spec.weights, lengths[Math.floor(h / group)], next), pad),
        ).flat(),
      ),
      at: {
        layer,
        layers: spec.layers,
        queryHeads: heads,
        kvHeads,
        headDim: dim,
        step: 0,
        promptLength: length,
        length,
        slots,
        aligned: !ragged,
        budget: spec.budget,
        selectRows: kvHeads,
      },
    };
  });
  return { spec, layers };
}
/** Returns the same cache in a view that selects for each query head separately. */
export const inView = ({ spec, layers }: Scene): Scene => ({
  spec,
  layers: layers.map((layer) => ({ ...layer, at: { ...layer.at, selectRows: layer.at.queryHeads } })),
});

/** Returns the same cache with a KV head for each query head. Aligned scenes only. */
export function byQueryHead({ spec, layers }: Scene): Scene {
  const { kvHeads, group } = spec,
    heads = kvHeads * group;
  const repeated = <A extends Float32Array | Uint32Array>(from: A): A => {
    const to = new (from.constructor as new (length: number) => A)(from.length * group),
      size = from.length / kvHeads;
    for (let h = 0; h < heads; h++) {
      const g = Math.floor(h / group);
      to.set(from.subarray(g * size, (g + 1) * size), h * size);
    }
    return to;
  };
  return {
    spec: { ...spec, kvHeads: heads, group: 1 },
    layers: layers.map((layer) => ({
      ...layer,
      lengths: new Array<number>(heads).fill(spec.slots),
      keys: repeated(layer.keys),
      values: repeated(layer.values),
      positions: repeated(layer.positions),
      at: { ...layer.at, kvHeads: heads, selectRows: heads },
    })),
  };
}
const row = (size: number, numbers: readonly number[], pad: number): number[] => [
  ...numbers,
  ...new Array<number>(size - numbers.length).fill(pad),
];

/**
 * Returns the same cache with its slots permuted equally in every head: slot i holds what slot `order[i]` held. Aligned
 * scenes only.
 */
export function permute({ spec, layers }: Scene, order: readonly number[]): Scene {
  const { kvHeads, group, slots, dim } = spec;
  const move = <A extends Float32Array | Uint32Array>(from: A, rows: number, width: number): A => {
    const to = from.slice() as A;
    for (let r = 0; r < rows; r++)
      for (let i = 0; i < slots; i++)
        for (let c = 0; c < width; c++) to[(r * slots + i) * width + c] = from[(r * slots + order[i]) * width + c];
    return to;
  };
  return {
    spec,
    layers: layers.map((l) => ({
      ...l,
      keys: move(l.keys, kvHeads, dim),
      values: move(l.values, kvHeads, dim),
      attention: move(l.attention, kvHeads * group, 1),
    })),
  };
}

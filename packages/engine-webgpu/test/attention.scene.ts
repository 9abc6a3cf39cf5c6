import { LEVELS, type Tensor } from '@kv/core';
import { cacheForms, createRows, decodeRows, encodeRows, LEVEL_SHIFT, storedForms } from '@kv/engine';
import type { RowForm } from '@kv/engine';
import type { Commands } from '@kv/gpu';
import { numbers, random } from '@kv/gpu-testing';
import fc from 'fast-check';
import type { AttentionResult, DeviceAttention } from '../src/attention.ts';
import { layRecords } from '../src/sequence/device-storage.ts';
import { toWords } from '../src/sequence/row-words.ts';
import type { DeviceForm } from '../src/wgsl/stored-rows.ts';
import { attendHead, type HeadAttended } from './attention.oracle.ts';
import { near, ulp } from './device.ts';

/** Shapes of attention at random. */
export const shapes = fc.record({
  seed: fc.nat(),
  m: fc.constantFrom(1, 2, 5, 15, 16, 17, 33),
  kvHeads: fc.constantFrom(1, 2),
  group: fc.constantFrom(1, 2, 3),
  headDim: fc.constantFrom(12, 80),
  slots: fc.constantFrom<number>(1, 31, 32, 33, 65, 150),
  spare: fc.constantFrom(0, 7),
  softcap: fc.constantFrom(undefined, 2),
  window: fc.constantFrom(undefined, 1, 20),
  views: fc.constantFrom(0, 1, 2),
  mask: fc.constantFrom('none', 'one', 'kv', 'query'),
  sinks: fc.boolean(),
  biases: fc.constantFrom(false, false, true), // kernels with biases are others, and take long to compile
});
type Drawn = typeof shapes extends fc.Arbitrary<infer S> ? S : never;
/** A shape of attention. */
export interface Shape extends Omit<Drawn, 'headDim'> {
  readonly headDim: number;
  /** How keys and values are stored. @defaultValue 'f32' */
  readonly form?: DeviceForm;
}
export const plain: Shape = {
  seed: 7,
  m: 33,
  kvHeads: 2,
  group: 2,
  headDim: 12,
  slots: 65,
  spare: 7,
  softcap: undefined,
  window: undefined,
  views: 0,
  mask: 'none',
  sinks: false,
  biases: false,
};

/**
 * A cache of ragged heads with gaps in its positions, queries at its end, what they may see; on the host and on the
 * device, where slots that no query sees may hold keys and values that are no numbers.
 */
export function scene(
  {
    seed,
    m,
    kvHeads: G,
    group,
    headDim: d,
    slots,
    spare,
    softcap,
    window,
    views,
    mask,
    sinks: sunk,
    biases: biased,
    form = 'f32',
  }: Shape,
  poisoned = false,
): {
  readonly heads: HeadAttended[];
  readonly values: number[];
  readonly H: number;
  readonly scale: number;
  readonly queryPositions: Uint32Array;
  readonly cache: { position: number; key: number[] }[][];
  readonly on: (commands: Commands) => DeviceAttention;
} {
  const next = random(seed),
    H = G * group,
    capacity = slots + spare,
    scale = 0.7 / Math.sqrt(d);
  const lengths = Uint32Array.from({ length: G }, (_, g) => (g === 0 ? slots : Math.floor(next() * (slots + 1))));
  const positions = new Uint32Array(G * capacity).fill(0xffff_ffff);
  for (let g = 0; g < G; g++)
    for (let j = 0, p = 0; j < lengths[g]; j++)
      positions[g * capacity + j] = p += j === 0 ? Math.floor(next() * 3) : 1 + Math.floor(next() * 2);
  const end = positions[slots - 1],
    // some before, some after the last slot
    queryPositions = Uint32Array.from({ length: m }, (_, i) => Math.max(i, end - Math.floor(m / 2) + i));
  const data = (salt: number, size: number): Float32Array => numbers(seed + salt, size).map((x) => x / 4);
  const q = data(1, H * m * d),
    [k, v] = [data(2, G * capacity * d), data(3, G * capacity * d)],
    // slots of records have levels in turn, from one that the seed gives on
    { keys, values, buffers, wordsOf } =
      form === 'records'
        ? storedRecords(d, k, v, (slot) => (slot + seed) % LEVELS.length, capacity)
        : storedRows(storedForms[form], d, k, v);
  const [sinks, share] = [Math.floor(next() * 9), next()];
  // a view like PSAW, and one that hides any range
  const bounds = Array.from({ length: m * views }, (_, i) => {
    if (i % views === 0) return [sinks, Math.floor(share * queryPositions[i / views])] as const;
    const from = Math.floor(next() * (end + 1));
    return [from, from + Math.floor(next() * end)] as const;
  });
  const maskRows = { none: 0, one: 1, kv: G, query: H }[mask],
    hidden = Uint32Array.from({ length: maskRows * (slots + 2) }, () =>
      next() < 0.3 ? 0 : next() < 0.5 ? 1 : 0x3f80_0000,
    );
  const learned = Float32Array.from({ length: H }, () => [-200, next(), 3 * next(), 30][Math.floor(4 * next())]);
  // beyond the cache's capacity too
  const biases = Float32Array.from({ length: G * (capacity + 3) }, () =>
    biased ? [0, -3, 2 * next(), 5][Math.floor(4 * next())] : 0,
  );
  const row = (all: Float32Array, at: number): number[] => [...all.subarray(at * d, (at + 1) * d)];
  const heads = Array.from({ length: H }, (_, h) => {
    const g = Math.floor(h / group),
      list = Array.from({ length: lengths[g] }, (_, j) => g * capacity + j);
    return attendHead({
      queries: Array.from({ length: m }, (_, r) => row(q, h * m + r)),
      queryPositions: [...queryPositions],
      keys: list.map((at) => row(keys, at)),
      values: list.map((at) => row(values, at)),
      positions: list.map((at) => positions[at]),
      scale,
      softcap,
      ...(sunk && { sink: learned[h] }),
      biases: list.map((_, j) => biases[g * (capacity + 3) + j]),
      visible: (own, j) => {
        const p = positions[g * capacity + j],
          r = queryPositions.indexOf(own);
        if (window !== undefined && own - p >= window) return false;
        if (bounds.slice(r * views, (r + 1) * views).some(([from, below]) => p >= from && p < below)) return false;
        return maskRows === 0 || hidden[(maskRows === 1 ? 0 : maskRows === G ? g : h) * (slots + 2) + j] !== 0;
      },
    });
  });
  const cache = Array.from({ length: G }, (_, g) =>
    Array.from({ length: lengths[g] }, (_, j) => ({
      position: positions[g * capacity + j],
      key: row(keys, g * capacity + j),
    })),
  );
  /** Whether attention passes over a slot: hidden by the window or the same range of a view from all, or by a mask. */
  const unread = (g: number, j: number): boolean => {
    const p = positions[g * capacity + j];
    if (maskRows > 0)
      return heads.slice(g * group, (g + 1) * group).every((head) => head.probabilities.every((row) => row[j] === 0));
    if (window !== undefined && queryPositions[0] - p >= window) return true;
    return views === 1 && p < queryPositions[0] && bounds.every(([from, below]) => p >= from && p < below);
  };
  if (poisoned)
    for (let g = 0; g < G; g++)
      for (let j = 0; j < lengths[g]; j++)
        if (unread(g, j)) for (const words of wordsOf(g * capacity + j)) words.fill(0xffff_ffff); // no number in any form
  const rows = Uint32Array.from(
    [...queryPositions].flatMap((p, r) => [p, ...bounds.slice(r * views, (r + 1) * views).flat()]),
  );
  const on = (commands: Commands): DeviceAttention => ({
    m,
    heads: H,
    kvHeads: G,
    headDim: d,
    capacity,
    slots,
    views,
    scale,
    ...(softcap !== undefined && { softcap }),
    ...(window !== undefined && { window }),
    ...(sunk && { sinks: commands.upload(learned, [H]) }),
    ...(biased && { biases: commands.upload(biases, [G, capacity + 3]) }),
    q: commands.upload(q, [H, m, d]),
    form,
    ...uploaded(commands, buffers, [G, capacity]),
    positions: commands.upload(positions, [G, capacity]),
    lengths: commands.upload(lengths, [G]),
    rows: commands.upload(rows, [m, 1 + 2 * views]),
    ...(maskRows > 0 && { mask: commands.upload(hidden, [maskRows, slots + 2]) }),
  });
  return { heads, values: [...values].map(Math.abs), H, scale, queryPositions, cache, on };
}

/**
 * How far a probability may be off, as a share of it: a score by its sum of d products (and a soft cap), and so the
 * difference of two; exp by 3 + 2 |x| ULP, |x| up to the spread and again where a maximum moves or parts are joined;
 * sums over n slots; a division.
 */
export const share = ({ scoreError, spread }: HeadAttended, r: number, slots: number): number =>
  (2 * scoreError[r] + 4 * (3 + 2 * spread[r]) + slots + 16) * 2 ** -24;

export function check(
  got: ArrayLike<number>,
  { heads, H }: ReturnType<typeof scene>,
  { m, headDim: d, slots }: Shape,
  { lseAt, last }: Pick<AttentionResult, 'lseAt' | 'last'>,
): void {
  const [mixed, lse]: [number[], number[]] = [[], []],
    [slack, lseSlack]: [number[], number[]] = [[], []],
    largest = 4;
  for (let r = 0; r < m; r++)
    for (let h = 0; h < H; h++)
      for (let c = 0; c < d; c++) {
        mixed.push(heads[h].mixed[r][c]);
        slack.push(largest * share(heads[h], r, slots) * heads[h].probabilities[r].reduce((a, b) => a + b, 0));
      }
  near(Float32Array.from(got).subarray(0, mixed.length), mixed, (at, y) => slack[at] + ulp(y), 'attended');
  for (let h = 0; h < H; h++)
    for (let r = m - last; r < m; r++) {
      lse.push(heads[h].lse[r] ?? -3.4028234663852886e38);
      lseSlack.push(share(heads[h], r, slots) + 2 ** -21);
    }
  near(
    Float32Array.from(got).subarray(lseAt, lseAt + lse.length),
    lse,
    (at, y) => lseSlack[at] + 4 * ulp(y),
    'log-sum-exp',
  );
}

/** Keys and values as they are stored, and as the host reads them. */
interface StoredParts {
  readonly keys: Float32Array;
  readonly values: Float32Array;
  /** One for keys and values each, or one for both. */
  readonly buffers: readonly [Uint32Array, Uint32Array?];
  /** Returns the words of a slot's key and value. */
  wordsOf(slot: number): readonly Uint32Array[];
}

/** Returns the words that rows are stored in, and the numbers that the host reads from them. */
function stored(form: RowForm, d: number, x: Float32Array): [words: Uint32Array, numbers: Float32Array] {
  const count = x.length / d,
    rows = createRows(form, d, count),
    out = new Float32Array(x.length);
  encodeRows(rows, d, 0, x);
  decodeRows(rows, d, 0, count, out);
  return [toWords(rows, d, 0, count), out];
}

function storedRows(
  forms: { readonly keys: RowForm; readonly values: RowForm },
  d: number,
  k: Float32Array,
  v: Float32Array,
): StoredParts {
  const [[keyWords, keys], [valueWords, values]] = [stored(forms.keys, d, k), stored(forms.values, d, v)],
    buffers = [keyWords, valueWords] as const;
  return {
    ...{ keys, values, buffers },
    wordsOf: (slot) =>
      buffers.map((words) => {
        const each = (words.length * d) / k.length;
        return words.subarray(slot * each, (slot + 1) * each);
      }),
  };
}

/** Returns slots as records at levels. */
function storedRecords(
  d: number,
  k: Float32Array,
  v: Float32Array,
  level: (slot: number) => number,
  capacity: number,
): StoredParts {
  const [keys, values] = [new Float32Array(k.length), new Float32Array(v.length)],
    heads = k.length / (capacity * d),
    levels = Array.from({ length: heads }, (_, g) =>
      Array.from({ length: capacity }, (__, i) => level(g * capacity + i)),
    ),
    { entries, words } = layRecords(levels, { headDim: d, capacity }, 0),
    all = new Uint32Array(words),
    begin = (slot: number): number => (slot < entries.length ? entries[slot] % 2 ** LEVEL_SHIFT : words);
  all.set(entries);
  for (const [slot, of] of levels.flat().entries()) {
    const forms = cacheForms[LEVELS[of]],
      from = slot * d,
      [key, keyNumbers] = stored(forms.keys, d, k.subarray(from, from + d)),
      [value, valueNumbers] = stored(forms.values, d, v.subarray(from, from + d));
    keys.set(keyNumbers, from);
    values.set(valueNumbers, from);
    all.set([...key, ...value], begin(slot));
  }
  return { keys, values, buffers: [all], wordsOf: (slot) => [all.subarray(begin(slot), begin(slot + 1))] };
}

function uploaded(
  commands: Commands,
  [keys, values]: readonly [Uint32Array, Uint32Array?],
  [heads, capacity]: readonly [number, number],
): Pick<DeviceAttention, 'keys' | 'values'> {
  const upload = (words: Uint32Array): Tensor => ({
      ...commands.upload(words, [words.length]),
      shape: [heads, capacity, Math.floor(words.length / (heads * capacity))],
    }),
    own = upload(keys);
  return { keys: own, values: values ? upload(values) : own };
}

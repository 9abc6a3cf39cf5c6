import { folds } from '@kv/cpu/engine';
import type { FoldKind } from '@kv/cpu/engine';
import { Layout, type AddressBase, type BufferSlice, type BufferRange, type WorkShare } from './layout.ts';
import { isFloat, kinds } from './kinds.ts';

/** Operations of kernel/run.ts. */
const ops = {
  barrier: 1,
  norm: 2,
  quantise: 3,
  product: 4,
  gated: 5,
  gate: 6,
  add: 7,
  rope: 8,
  bend: 9,
  append: 10,
  token: 11,
  join: 12,
  pack: 13,
  attend: 14,
  queries: 15,
  tokens: 16,
  joins: 17,
  fold: 18,
  mix: 19,
  gram: 20,
  quadratic: 21,
} as const;

/** Some rows of a weight in panels of one kind. */
export interface WeightPanels {
  readonly kind: number;
  readonly rows: number;
  readonly inputs: number;
  /** Address of its panels, and bytes of one. */
  readonly at: number;
  readonly size: number;
  /** Whether activations stay f32. */
  readonly exact: boolean;
}

/**
 * Returns the words of a product of f32 rows x with a panel-packed f32 weight, to rows next to each other at `to`, and
 * of the mixtures of `count` of these by weights at `shares`: see @kv/cpu's block-products.ts.
 */
export function blockWords(
  { at, rows, inputs }: Pick<WeightPanels, 'at' | 'rows' | 'inputs'>,
  x: number,
  to: number,
  fold: FoldKind,
  count: number,
  n: number,
  folded: number,
  shares: number,
): readonly number[] {
  const product = [ops.product, kinds.F32, at, inputs, x, x, x, 4 * inputs, to, 4 * rows, rows, 0, 2];
  return fold === folds.rows
    ? product
    : [...product, ops.barrier, ops.fold, fold, to, 4 * rows, count, n, folded, shares, x, at, inputs];
}

/** Returns the words of sums in f64, at `to`, of n vectors of d at x by rows of weights at p. */
export const mixWords = (p: number, rows: number, x: number, n: number, d: number, to: number): readonly number[] => [
  ...[ops.mix, p, 4 * n, rows, x, n, d, to],
];

/**
 * Returns the words of @kv/core's `gram` or `quadratic`: x `[heads, n, d]` at `at`, followed by w or m, c
 * `[origins, d]`, lengths of the heads; `rows` of the matrices, or matrices of a head, `weights` rows of w.
 */
export const matrixWords = (
  kind: 'gram' | 'quadratic',
  [x, y, c, out, lengths]: readonly number[],
  sizes: readonly [heads: number, n: number, d: number, rows: number, weights: number, origins: number],
): readonly number[] => [ops[kind], x, y, c, out, ...sizes, lengths];

/** Sizes of the memory that attention's kernels use. */
export interface Sizes {
  readonly threads: number;
  readonly activation: number;
  readonly ownBytes: number;
  partBytes(heads: number, headDim: number): number;
  tokenScratch(group: number): number;
  rowsScratch(headDim: number): number;
  packScratch(headDim: number): number;
}

/** A layer's attention. */
export interface AttentionShape {
  readonly queryHeads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly scale: number;
  readonly softcap?: number | undefined;
  /** Positions that a query sees, its own included; 0 for all. */
  readonly window: number;
  /** The layer's number, and bytes from the first cache to this layer's words. */
  readonly layer: number;
  readonly cache: number;
  /** Whether blocks attend in 8 bits: keys, queries, weights and values. */
  readonly eight: boolean;
}

/** How threads divide an operation on rows: each does all, or a share of rows or (for one row) of columns. */
const modes = { all: 0, rows: 1, columns: 2 } as const;

const bits = new Float32Array(1),
  bitsOf = new Uint32Array(bits.buffer);
/** Returns the word of a real number. */
const real = (value: number): number => {
  bits[0] = value;
  return bitsOf[0];
};

const padded = (numbers: number): number => 16 * Math.ceil(numbers / 16);

/**
 * Flags added to a weight's kind: activations stay f32; each of a few rows gets the result that it would have alone.
 */
const exactly = 256,
  few = 512;

/**
 * Writes code for one row, or for up to `rows`. For one row every thread computes cheap operations itself, so that
 * threads synchronise only around products and attention; for many rows each thread takes a share of the rows.
 */
export class BytecodeWriter {
  readonly words: number[] = [];
  readonly layout: Layout;
  /** Code offset after the last append of a block's keys and values to the cache. */
  appended = 0;
  readonly #sizes: Sizes;
  /** Allocated rows: 1, or a multiple of four. */
  readonly #room: number;
  readonly #mode: 'all' | 'rows';
  readonly #apart: boolean;
  /** The value last rounded to 8 bits. */
  #quantised: { readonly x: BufferSlice; readonly codes: BufferSlice; readonly meta: BufferSlice } | undefined;
  /** Whether threads have claimed pieces of an operation since the last barrier. */
  #claimed = false;
  readonly #touched = new Set<BufferRange>();
  #codes: BufferRange | undefined;
  #meta: BufferRange | undefined;

  /**
   * @param apart whether rows are tokens of several sequences, each with the result, to the bit, that it would have
   * alone
   */
  constructor(sizes: Sizes, rows: number, apart: boolean = false) {
    [this.#sizes, this.#apart] = [sizes, apart];
    this.layout = new Layout(rows === 1 ? 1 : 4 * Math.ceil(rows / 4), sizes.ownBytes);
    this.#room = this.layout.rows;
    this.#mode = rows === 1 ? 'all' : 'rows';
  }

  /** Number of bytes of code so far. */
  get length(): number {
    return 4 * this.words.length;
  }

  /** Allocates values of `width` numbers: shared, or, for one row, local to each thread. */
  value(width: number, shared: boolean = this.#room > 1): BufferSlice {
    const base: AddressBase = shared ? 1 : 2,
      stride = 4 * padded(width),
      room = this.layout.take(base, this.#room * stride);
    return { base, at: room.at, stride, room };
  }

  free({ room }: BufferSlice): void {
    if (this.#quantised?.x.room === room) this.#quantised = undefined;
    this.layout.give(room);
  }

  columns(x: BufferSlice, from: number): BufferSlice {
    return { ...x, at: x.at + 4 * from };
  }

  norm(x: BufferSlice, width: number, gain: number, run: number, eps: number): BufferSlice {
    const out = this.value(width);
    this.#use([[x, this.#mode]], [[out, this.#mode]]);
    this.#put(ops.norm, at(x), x.stride, at(out), out.stride, width, run, gain, real(eps), modes[this.#mode]);
    return out;
  }

  add(x: BufferSlice, y: BufferSlice, width: number): BufferSlice {
    const out = this.value(width);
    this.#use(
      [
        [x, this.#mode],
        [y, this.#mode],
      ],
      [[out, this.#mode]],
    );
    const { stride } = out;
    this.#put(ops.add, at(x), x.stride, at(y), y.stride, at(out), stride, width, modes[this.#mode]);
    return out;
  }

  rope(x: BufferSlice, heads: number, headDim: number, rotary: number): BufferSlice {
    const out = this.value(heads * headDim);
    this.#use([[x, this.#mode]], [[out, this.#mode]]);
    this.#put(ops.rope, at(x), x.stride, at(out), out.stride, heads, headDim, rotary, modes[this.#mode]);
    return out;
  }

  /** Writes cap * tanh(x / cap). */
  softcap(x: BufferSlice, width: number, cap: number): BufferSlice {
    return this.#bend(x, width, cap, 0);
  }

  /** Writes x * by. */
  scale(x: BufferSlice, width: number, by: number): BufferSlice {
    return this.#bend(x, width, by, 1);
  }

  /** Writes an elementwise operation; a shared single row is divided by columns. */
  #bend(x: BufferSlice, width: number, by: number, how: 0 | 1): BufferSlice {
    const out = this.value(width, true),
      mode = this.#room === 1 && x.base === 1 ? 'columns' : this.#mode;
    this.#use([[x, mode]], [[out, mode]]);
    this.#put(ops.bend, at(x), x.stride, at(out), out.stride, width, real(by), modes[mode], how);
    return out;
  }

  /** Writes x times the parts of a weight, concatenated by rows. */
  product(x: BufferSlice, parts: readonly WeightPanels[], bias: number): BufferSlice {
    const width = parts.reduce((sum, { rows }) => sum + rows, 0),
      out = this.value(width, true);
    let from = 0;
    for (const part of parts) {
      const { kind, word, inputs } = this.#weight(part),
        to = this.columns(out, from);
      this.#use(this.#activations(x, [part]), [[out, 'pieces']], true);
      const { codes, meta } = this.#inBytes(x) ?? { codes: x, meta: x };
      this.#put(ops.product, kind, word, inputs, at(codes), at(meta), at(x), x.stride);
      this.#more(at(to), out.stride, part.rows, bias === 0 ? 0 : bias + 4 * from, this.#piece(part.rows));
      from += part.rows;
    }
    return out;
  }

  /** Writes activation(x times gate) * (x times up). */
  gated(x: BufferSlice, gate: WeightPanels, up: WeightPanels, bias: number, how: number): BufferSlice {
    const out = this.value(gate.rows, true),
      ups = this.layout.take(2, 64 * this.#room);
    this.#use(this.#activations(x, [gate, up]), [[out, 'pieces']], true);
    const { codes, meta } = this.#inBytes(x) ?? { codes: x, meta: x },
      [a, b] = [this.#weight(gate), this.#weight(up)];
    this.#put(ops.gated, how, a.kind, a.word, b.kind, b.word, a.inputs, at(codes), at(meta), at(x), x.stride);
    this.#more(at(out), out.stride, gate.rows, this.#piece(gate.rows), ups.at + 2);
    this.#more(bias, bias === 0 ? 0 : bias + 4 * gate.rows, up.size);
    this.layout.give(ups);
    return out;
  }

  /** Writes activation(gates) * ups of rows `[gates | ups]`. */
  gate(x: BufferSlice, width: number, how: number): BufferSlice {
    const out = this.value(width),
      ups = this.columns(x, width);
    this.#use([[x, this.#mode]], [[out, this.#mode]]);
    const { stride } = out;
    this.#put(ops.gate, how, at(x), x.stride, at(ups), x.stride, at(out), stride, width, modes[this.#mode]);
    return out;
  }

  /** Writes attention of the rows, whose keys and values are appended to the cache. */
  attention(q: BufferSlice, k: BufferSlice, v: BufferSlice, shape: AttentionShape): BufferSlice {
    const { queryHeads, headDim, layer } = shape;
    this.#use([[q, this.#mode]], []);
    this.#put(ops.queries, at(q), q.stride, queryHeads * headDim, layer, modes[this.#mode]);
    if (this.#room === 1) return this.#token(q, k, v, shape);
    return this.#apart ? this.#tokens(q, k, v, shape) : this.#rows(q, k, v, shape);
  }

  #token(q: BufferSlice, k: BufferSlice, v: BufferSlice, shape: AttentionShape): BufferSlice {
    const { queryHeads: H, kvHeads: G, headDim: d, scale, softcap = 0, window, cache, layer } = shape,
      { partBytes, tokenScratch } = this.#sizes;
    const parts = this.layout.take(1, partBytes(H, d)),
      scratch = this.layout.take(2, tokenScratch(H / G));
    const held = { base: 1, at: parts.at, stride: 0, room: parts } as const;
    this.#use(
      [
        [q, 'all'],
        [k, 'all'],
        [v, 'all'],
      ],
      [[held, 'pieces']],
      true,
    );
    this.#put(ops.token, cache, H, G, d, at(q), at(k), at(v), real(scale), real(softcap), window);
    this.#more(at(held), scratch.at + 2, layer);
    const out = this.value(H * d);
    this.#use([[held, 'all']], [[out, 'all']]);
    this.#put(ops.join, cache, H, G, d, window, at(held), at(out), layer);
    this.layout.give(parts);
    this.layout.give(scratch);
    return out;
  }

  /** Writes attention of each row over its own caches. */
  #tokens(q: BufferSlice, k: BufferSlice, v: BufferSlice, shape: AttentionShape): BufferSlice {
    const { queryHeads: H, kvHeads: G, headDim: d, scale, softcap = 0, window, cache, layer } = shape,
      { partBytes, tokenScratch } = this.#sizes,
      bytes = partBytes(H, d);
    const parts = this.layout.take(1, this.#room * bytes),
      scratch = this.layout.take(2, tokenScratch(H / G)),
      held = { base: 1, at: parts.at, stride: bytes, room: parts } as const;
    const read = [q, k, v].map((place) => [place, 'all'] as const);
    this.#use(read, [[held, 'pieces']], true);
    this.#put(
      ops.tokens,
      cache,
      H,
      G,
      d,
      at(q),
      q.stride,
      at(k),
      k.stride,
      at(v),
      v.stride,
      real(scale),
      real(softcap),
    );
    this.#more(window, at(held), bytes, scratch.at + 2, layer);
    const out = this.value(H * d);
    this.#use([[held, 'all']], [[out, 'rows']]);
    this.#put(ops.joins, cache, H, G, d, window, at(held), bytes, at(out), out.stride, layer);
    this.layout.give(parts);
    this.layout.give(scratch);
    return out;
  }

  #rows(q: BufferSlice, k: BufferSlice, v: BufferSlice, shape: AttentionShape): BufferSlice {
    const { queryHeads: H, kvHeads: G, headDim: d, scale, softcap = 0, window, cache, layer } = shape,
      eight = Number(shape.eight),
      scratch = this.layout.take(2, this.#sizes.rowsScratch(d)),
      out = this.value(H * d);
    this.#use(
      [
        [k, 'rows'],
        [v, 'rows'],
      ],
      [],
    );
    this.#put(ops.append, cache, G, d, at(k), k.stride, at(v), v.stride);
    this.appended = this.length;
    this.#meet();
    this.#claimed = true;
    const mean = this.layout.take(2, this.#sizes.packScratch(d));
    this.#put(ops.pack, eight, cache, G, d, real(softcap), mean.at + 2);
    this.layout.give(mean);
    this.#meet();
    this.#use([[q, 'all']], [[out, 'pieces']], true);
    this.#put(ops.attend, cache, H, G, d, at(q), q.stride, real(scale), real(softcap), window);
    this.#more(at(out), out.stride, scratch.at + 2, layer, eight);
    this.layout.give(scratch);
    return out;
  }

  /** Rounds x to 8 bits, once, if some part needs it so, and returns what a product with these parts reads. */
  #activations(x: BufferSlice, parts: readonly WeightPanels[]): readonly (readonly [BufferSlice, WorkShare])[] {
    const eight = parts.some(({ exact, kind }) => !exact && !isFloat(kind)),
      own = this.#room === 1;
    if (eight && this.#inBytes(x) === undefined) {
      const { inputs } = parts[0],
        base = own ? 2 : 1,
        stride = inputs * this.#sizes.activation;
      // one buffer for all: the previous values are no longer read, as threads synchronise after their product
      this.#codes = this.#atLeast(this.#codes, base, this.#room * stride);
      this.#meta = this.#atLeast(this.#meta, base, (this.#room * inputs) / 2);
      const codes: BufferSlice = { base, at: this.#codes.at, stride, room: this.#codes },
        meta: BufferSlice = { base, at: this.#meta.at, stride: inputs / 2, room: this.#meta };
      this.#use(
        [[x, this.#mode]],
        [
          [codes, this.#mode],
          [meta, this.#mode],
        ],
      );
      this.#put(ops.quantise, at(x), x.stride, inputs, at(codes), at(meta), modes[this.#mode]);
      this.#quantised = { x, codes, meta };
    }
    const places = this.#inBytes(x);
    return [[x, 'all'], ...(places ? [[places.codes, 'all'] as const, [places.meta, 'all'] as const] : [])];
  }

  #inBytes({ room, at }: BufferSlice): { readonly codes: BufferSlice; readonly meta: BufferSlice } | undefined {
    return this.#quantised?.x.room === room && this.#quantised.x.at === at ? this.#quantised : undefined;
  }

  #atLeast(room: BufferRange | undefined, base: 1 | 2, bytes: number): BufferRange {
    if (room !== undefined && room.bytes >= bytes) return room;
    if (room !== undefined) this.layout.give(room);
    return this.layout.take(base, bytes);
  }

  /** Returns the number of panels that a thread claims at a time. */
  #piece(outputs: number): number {
    return Math.max(1, Math.ceil(outputs / 16 / (this.#sizes.threads === 1 ? 1 : 6 * this.#sizes.threads)));
  }

  /**
   * Records what an operation reads and writes, and adds a barrier before one that could read, or overwrite, another
   * thread's part of an operation since the last barrier. `claims`: threads claim pieces on a first-come basis, which
   * only one operation between two barriers may do.
   */
  #use(
    reads: readonly (readonly [BufferSlice, WorkShare])[],
    writes: readonly (readonly [BufferSlice, WorkShare])[],
    claims = false,
  ): void {
    const apart = (a: WorkShare | undefined, b: WorkShare): boolean =>
      a !== undefined && !(a === b && (a === 'rows' || a === 'columns'));
    const clash =
      (claims && this.#claimed) ||
      reads.some(([{ base, room }, share]) => base === 1 && apart(room.written, share)) ||
      writes.some(
        ([{ base, room }, share]) =>
          base === 1 && (apart(room.written, share) || [...room.read].some((other) => apart(other, share))),
      );
    if (clash) this.#meet();
    for (const [{ base, room }, share] of reads)
      if (base === 1) {
        room.read.add(share);
        this.#touched.add(room);
      }
    for (const [{ base, room }, share] of writes)
      if (base === 1) {
        room.written = share;
        this.#touched.add(room);
      }
    this.#claimed ||= claims;
  }

  /** Returns the words of a weight. */
  #weight({ kind, at: word, inputs, exact }: WeightPanels): { kind: number; word: number; inputs: number } {
    return { kind: kind + (exact ? exactly : 0) + (this.#apart ? few : 0), word, inputs };
  }

  /** Writes a barrier for all threads. */
  #meet(): void {
    this.#put(ops.barrier);
    this.#claimed = false;
    for (const room of this.#touched) {
      room.written = undefined;
      room.read.clear();
    }
    this.#touched.clear();
  }

  #put(...words: readonly number[]): void {
    this.words.push(...words);
  }
  #more(...words: readonly number[]): void {
    this.words.push(...words);
  }
}

/** Returns the word of an address: the offset is a multiple of 4, and the lowest bits hold its base. */
function at({ base, at }: BufferSlice): number {
  return at + base;
}

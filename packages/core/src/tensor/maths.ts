import { KvError } from './errors.ts';
import { kernel } from './kernel.ts';
import type { Kernel } from './kernel.ts';
import { showValue } from '../piece/option.ts';
import type { Axis, Binary, Operand, PoolOptions, Primitives, Reduction, Unary } from './ops.ts';
import { LOWEST } from './tensor.ts';
import type { DType, Tensor } from './tensor.ts';

/** A mask: slots marked with 1; the number 0 marks none. */
export type Mask = Tensor | 0;
/** The highest score. */
export const HIGHEST: number = -LOWEST;

/** Masks of a selection. */
export interface Masks {
  readonly forced?: Mask | undefined;
  readonly banned?: Mask | undefined;
  /** f32 `[rows, 1]`: rows with 0 select nothing. */
  readonly active?: Tensor | undefined;
}
type Types = Readonly<Record<string, DType>>;

/** What a piece computes with: a backend's primitives, and operations composed of them for every backend. */
export interface Ops extends Omit<Primitives, 'where' | 'select' | 'kernel'> {
  /** `a` where `mask` is not 0, else `b`. */
  where(mask: Mask, a: Operand, b: Tensor): Tensor;
  where(mask: Tensor, a: Operand, b: Operand): Tensor;
  /**
   * Returns kept slots, ascending: per row the forced ones, then the highest scores, ties to the lower slot, never a
   * banned one, until `budgets[r]` (f32 `[rows, 1]`) are taken; all forced ones even beyond it. Result u32 `[rows, n]`,
   * ragged: its lengths are the counts. Rows whose `active` is 0 select nothing and end early.
   */
  select(scores: Tensor, budgets: Tensor, masks?: Masks): Tensor;
  kernel<I extends Types, P extends Types>(
    kernel: Kernel<I, P>,
    inputs: { readonly [K in keyof I]: Tensor },
    ...params: [keyof P] extends [never]
      ? []
      : string extends keyof P
        ? [params?: Readonly<Record<string, number>>]
        : [params: { readonly [K in keyof P]: number }]
  ): Tensor;

  /** `[r, n]` to `[rows, n]`: row h reads row floor(h r / rows); ragged if `x` is. */
  broadcast(x: Tensor, rows: number): Tensor;
  /** Reduces the rows of each group to one, if there are more than `rows`; else returns `x`. */
  reduceRows(kind: 'mean' | 'max' | 'sum', x: Tensor, rows: number): Tensor;
  /** Converts whole numbers to f32. */
  float(x: Tensor): Tensor;
  /** Sum of each row over its valid slots, `[r, 1]`. */
  sum(x: Tensor): Tensor;
  /** 1 where a mask is 0. */
  not(mask: Tensor): Tensor;
  not(mask: Mask): Tensor | 1;
  /** Slots that either mask marks. */
  union(a: Mask, b: Mask): Mask;
  /** Number of marked slots in each row, `[r, 1]`. */
  count(mask: Tensor): Tensor;
  count(mask: Mask): Tensor | 0;
  /** Scores with forced slots the highest and banned ones the lowest; a slot that is both is forced. */
  masked(scores: Tensor, masks: Masks): Tensor;
  /** 1 at each row's `k` `[rows, 1]` best slots, forced ones first, else 0. */
  top(scores: Tensor, k: Tensor, masks?: Masks): Tensor;
}

/** Repeats rows to `rows` rows. */
const broadcastRows = kernel({
  id: 'broadcast',
  inputs: { x: 'f32' },
  params: { rows: 'u32' },
  ragged: 'x',
  output: { shape: ({ x: [, ...rest] }, { rows }) => [rows, ...rest] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = x_shape.y * x_shape.z;
  output[index] = x[index / n * x_shape.x / params.rows * n + index % n];
}`,
  ref({ x: { data, shape } }, { rows }, out) {
    const n = data.length / shape[0];
    for (let r = 0; r < rows; r++) {
      const from = Math.floor((r * shape[0]) / rows) * n;
      out.set(data.subarray(from, from + n), r * n);
    }
  },
});

/** Operations composed of primitives, the same for every backend. */
const made = (ops: Ops): Omit<Ops, keyof Primitives> => ({
  broadcast: (x, rows) => (x.shape[0] === rows ? x : ops.kernel(broadcastRows, { x }, { rows })),
  reduceRows: (kind, x, rows) => (x.shape[0] > rows ? ops.groupRows(kind, x, rows) : x),
  float: (x) => (x.dtype === 'f32' ? x : ops.mul(x, 1)),
  sum: (x) => ops.reduce('sum', x, 'slots'),
  not: ((mask: Mask) => (mask === 0 ? 1 : ops.less(mask, 1))) as Ops['not'],
  union: (a, b) => (a && b ? ops.max(a, b) : a || b),
  count: ((mask: Mask) => (mask === 0 ? 0 : ops.sum(mask))) as Ops['count'],
  masked: (scores, { forced = 0, banned = 0 }) => ops.where(forced, HIGHEST, ops.where(banned, LOWEST, scores)),
  top: (scores, k, masks) => ops.mark(ops.select(scores, k, masks), scores),
});

const GROUPED = ['mean', 'max', 'sum'];
/** The words that an operation takes: which argument, and which there are. */
const WORDS: Readonly<
  Partial<Record<keyof Primitives, readonly (readonly [at: number, words: readonly unknown[]])[]>>
> = {
  from: [[1, [undefined, 'f32', 'u32']]],
  map: [[0, ['exp', 'log', 'log1p', 'sqrt', 'abs', 'floor'] satisfies readonly Unary[]]],
  zip: [[0, ['add', 'sub', 'mul', 'div', 'max', 'min', 'less', 'atLeast', 'equal'] satisfies readonly Binary[]]],
  reduce: [
    [0, ['sum', 'mean', 'max', 'min', 'std'] satisfies readonly Reduction[]],
    [2, ['rows', 'slots', 'channels'] satisfies readonly Axis[]],
  ],
  groupRows: [[0, GROUPED]],
  groupSlots: [[0, GROUPED]],
  norm: [[1, [undefined, 1, 2]]],
  rank: [[1, ['row', 'all']]],
};
type Call = (...args: readonly unknown[]) => Tensor;
/** Returns operations that refuse words they do not know: without types they would compute something else. */
function spelled<P extends Partial<Primitives>>(primitives: P): P {
  const checked = Object.entries(WORDS).flatMap(([name, places]) => {
    const call = primitives[name as keyof P] as Call | undefined;
    if (!call) return [];
    const careful: Call = (...args) => {
      for (const [at, words] of places) expectWord(name, args[at], words);
      return call(...args);
    };
    return [[name, careful] as const];
  });
  return { ...primitives, ...Object.fromEntries(checked) };
}
/** @throws KvError for a word that is not among these */
function expectWord(name: string, word: unknown, words: readonly unknown[]): void {
  if (words.includes(word)) return;
  const known = words.filter((one) => one !== undefined);
  throw new KvError(`ops.${name}`, `expected ${known.join(', ')}, got ${showValue(word)}`);
}

/**
 * Returns all operations of a piece, from those of a backend.
 * @throws KvError, from an operation, for a word that it does not know
 */
export function withMaths({ where, select, matmul, pool, ...rest }: Primitives): Ops {
  const ops = {
    ...spelled(rest),
    pool(x: Tensor, options: PoolOptions): Tensor {
      expectWord('pool', options?.kind, ['mean', 'max']);
      return pool(x, options);
    },
    where: (mask: Mask, a: Operand, b: Operand): Tensor => (mask === 0 ? (b as Tensor) : where(mask, a, b)),
    select: (scores: Tensor, budgets: Tensor, { forced, banned, active }: Masks = {}): Tensor =>
      select(scores, budgets, { forced: forced || undefined, banned: banned || undefined, active }),
    matmul(a: Tensor, b: Tensor): Tensor {
      if (a.shape.length !== 2 || b.shape.length !== 3 || a.shape[1] !== b.shape[1])
        throw new KvError('ops.matmul', `expected [r, n] and [r', n, d], got shapes [${a.shape}] and [${b.shape}]`);
      return matmul(a, b);
    },
  } as Ops;
  return Object.assign(ops, made(ops));
}

/** Returns the primitives of all operations, for a layer between a piece and its backend. */
export const primitivesOf = (ops: Ops): Primitives =>
  Object.fromEntries(Object.entries(ops).filter(([name]) => !(name in made(ops)))) as unknown as Primitives;

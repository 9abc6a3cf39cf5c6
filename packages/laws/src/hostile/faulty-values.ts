import type { LayerContext, HostArray, Ops, Tensor } from '@kv/core';

/** Where a piece is when it gives something. */
export interface FaultContext {
  readonly ops: Ops;
  readonly at: LayerContext;
}
/** A fault: a value instead of the correct one. */
export interface FaultyValue {
  readonly name: string;
  /** Returns the value that replaces `good`; if it throws, the piece throws. */
  of(good: unknown, where: FaultContext): unknown;
  /** It comes only at the second event, after a correct first one. */
  readonly late?: boolean;
}
/** Faults that fit any point. */
export const anything: readonly FaultyValue[] = [
  { name: 'undefined', of: () => undefined },
  { name: 'null', of: () => null },
  { name: 'a number', of: () => 5 },
  { name: 'a string', of: () => 'text' },
  { name: 'true', of: () => true },
  { name: 'an empty array', of: () => [] },
  { name: 'an empty object', of: () => ({}) },
  { name: 'a function', of: (good) => () => good },
  { name: 'a typed array', of: () => new Float32Array(4) },
  { name: 'a promise', of: (good) => Promise.resolve(good) },
  ...thrown(),
];
function thrown(): readonly FaultyValue[] {
  const throws = (name: string, x: unknown): FaultyValue => ({
    name: `throws ${name}`,
    of: () => {
      throw x;
    },
  });
  return [
    throws('an error', new Error('enough')),
    throws('a string', 'enough'),
    throws('undefined', undefined),
    throws('null', null),
  ];
}

const sized = ({ dtype }: Tensor, sizes: readonly number[], { ops }: FaultContext): Tensor =>
  ops.from(numbers(sizes, dtype === 'u32' ? 0 : 1), dtype);
const numbers = (shape: readonly number[], x: number): HostArray => ({
  data: new Float32Array(shape.reduce((a, b) => a * b, 1)).fill(x),
  shape,
});
const shaped = (
  name: string,
  sizes: (shape: readonly number[], at: LayerContext) => readonly number[],
): FaultyValue => ({
  name,
  of: (good, where) => sized(good as Tensor, sizes((good as Tensor).shape, where.at), where),
});
const handle = (name: string, of: (good: Tensor, where: FaultContext) => object): FaultyValue => ({
  name,
  of: (good, where) => of(good as Tensor, where),
});
/** Tensors of a wrong shape or type; with `columns: false` without those whose number of columns is wrong. */
export const tensors = (columns: boolean): readonly FaultyValue[] => [
  shaped('rank 1', ([, n = 1]) => [n]),
  shaped('another rank', (shape) => (shape.length === 3 ? shape.slice(0, 2) : [...shape, 2])),
  shaped('no rows', ([, ...rest]) => [0, ...rest]),
  shaped('more rows than heads', ([, ...rest], { queryHeads }) => [queryHeads + 1, ...rest]),
  ...(columns
    ? [
        shaped('a column less', ([r, n = 1, ...rest]) => [r, n - 1, ...rest]),
        shaped('a column more', ([r, n = 1, ...rest]) => [r, n + 1, ...rest]),
      ]
    : []),
  handle('the other type', ({ shape, dtype }, { ops }) => ops.from(numbers(shape, 0), dtype === 'f32' ? 'u32' : 'f32')),
  handle('an unknown type', (good) => ({ ...good, dtype: 'f64' })),
  handle('a type that is no string', (good) => ({ ...good, dtype: 5 })),
  handle('a shape that is no array', (good) => ({ ...good, shape: 5 })),
  handle('a shape of strings', (good) => ({ ...good, shape: good.shape.map(String) })),
  handle('a shape of NaN', (good) => ({ ...good, shape: good.shape.map(() => NaN) })),
  handle('a handle that no backend made', ({ shape, dtype }) => ({ shape, dtype })),
  handle('a smaller tensor that says it is larger', ({ shape, dtype }, { ops }) => ({
    ...ops.from(numbers([1, 1], 0), dtype),
    shape,
  })),
  handle('lengths that are no tensor', (good) => ({ ...good, lengths: 5 })),
  handle('lengths of another type', (good, { ops }) => ({ ...good, lengths: ops.from(numbers([good.shape[0]], 1)) })),
  handle('lengths of more rows', (good, { ops }) => ({
    ...good,
    lengths: ops.from(numbers([good.shape[0] + 1], 1), 'u32'),
  })),
  {
    name: 'a getter that throws',
    of: () => ({
      dtype: 'f32',
      get shape(): never {
        throw new Error('enough');
      },
    }),
  },
];
/** Tensors of another backend, or of a scope that has ended. */
export function lifetimes(foreign: Tensor): readonly FaultyValue[] {
  return [
    handle('a tensor of another backend', (good) => ({ ...foreign, shape: good.shape, dtype: good.dtype })),
    { name: 'a tensor of an earlier event', late: true, of: (good) => good },
  ];
}
/** The same numbers except for the last one. */
export const content = (...values: readonly number[]): readonly FaultyValue[] =>
  values.map((x) => ({
    name: Number.isFinite(x) && x < 0 ? 'a negative number' : String(x),
    of: (good, { ops }) => {
      const { shape, dtype } = good as Tensor,
        { data } = numbers(shape, 0);
      return ops.from({ shape, data: Float32Array.from(data, (y, i) => (i === data.length - 1 ? x : y)) }, dtype);
    },
  }));
export const spoiltValues: readonly FaultyValue[] = content(NaN, Infinity, -Infinity, -1);

/** Invalid kept slots `[rows, n]`, for a budget of `budget`. */
export const slots: readonly FaultyValue[] = (
  [
    ['a slot that does not exist', (list, n) => [...list.slice(1), n]],
    ['a negative slot', (list) => [...list.slice(1), -1]],
    ['a repeated slot', ([first, ...rest]) => [first, first, ...rest.slice(1)]],
    ['descending slots', (list) => list.toReversed()],
    ['more slots than the budget', (list) => [...list, list.length]],
    ['no slots', () => []],
  ] as readonly (readonly [string, (list: readonly number[], n: number) => readonly number[]])[]
).map(([name, change]) => ({
  name,
  of: (good, { ops, at }) => {
    const [rows = 1, n = 0] = (good as Tensor).shape,
      list = change(
        Array.from({ length: n }, (_, i) => i),
        at.slots,
      );
    return ops.from(
      {
        data: Uint32Array.from(Array.from({ length: rows }, () => list).flat(), (x) => x >>> 0),
        shape: [rows, list.length],
      },
      'u32',
    );
  },
}));
/** Numbers that are not positions or counts. */
export const counts: readonly FaultyValue[] = [NaN, Infinity, -Infinity, -1, 1.5].map((x) => ({
  name: String(x),
  of: () => x,
}));

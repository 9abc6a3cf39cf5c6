import { stack, type Matrix } from '../format/matrix.ts';
import type { LazyRead } from '../format/tensor-reader.ts';
import { concatArrays } from '../read/join-bytes.ts';

/** Applies a function to what is read, if anything is. */
export function convert<T>(load: LazyRead<T>, change: (value: T) => T): LazyRead<T>;
export function convert<T>(load: LazyRead<T> | undefined, change: (value: T) => T): LazyRead<T> | undefined;
export function convert<T>(load: LazyRead<T> | undefined, change: (value: T) => T): LazyRead<T> | undefined {
  return load && (async () => change(await load()));
}

/** Stacks matrices that are read together. */
export const stacked =
  (loads: readonly LazyRead<Matrix>[]): LazyRead<Matrix> =>
  async () =>
    stack(await Promise.all(loads.map((load) => load())));

/** Joins vectors that are read together. */
export const inOne =
  (loads: readonly LazyRead<Float32Array>[]): LazyRead<Float32Array> =>
  async () =>
    concatArrays(await Promise.all(loads.map((load) => load())));

/** What reads the properties of an object. */
export type Reads<W> = {
  readonly [K in keyof W]-?: LazyRead<NonNullable<W[K]>> | (undefined extends W[K] ? undefined : never);
};

/** Awaits all properties of an object at once; properties that are undefined are left out. */
export function take<W extends object>(loads: Reads<W>): LazyRead<W> {
  return async () =>
    Object.fromEntries(
      await Promise.all(
        Object.entries<LazyRead<unknown> | undefined>(loads).flatMap(([name, load]) =>
          load ? [load().then((value) => [name, value])] : [],
        ),
      ),
    ) as W;
}

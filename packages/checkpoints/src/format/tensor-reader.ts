import { KvError } from '@kv/core';
import { show } from '../read/fields.ts';
import { dense, transpose, unreadRows, type Matrix, type Reordering, type RowsRead } from './matrix.ts';
import type { BytesPart, CheckpointTensors } from './tensor-file.ts';
import { floatRows, notFinite, tensorTypes, weightType, type TensorType } from './tensor-types.ts';

/** A read that starts when called. */
export type LazyRead<T> = () => Promise<T>;

/**
 * Reads tensors by name and shape. Every request is checked against the header at once, and recorded for `checkNames`.
 */
export interface TensorReader {
  /** Requests a matrix `[outputs, inputs]` as stored, its rows put in `order`. */
  matrix(name: string, outputs: number, inputs: number, order?: Reordering | undefined): LazyRead<Matrix>;
  /** Requests a vector, as f32, its numbers put in `order`. */
  vector(name: string, width: number, order?: Reordering | undefined): LazyRead<Float32Array>;
  /** Requests the kernels of a convolution of each channel alone, `[channels, length]` or `[channels, 1, length]`, as f32. */
  kernel(name: string, channels: number, length: number): LazyRead<Float32Array>;
  /** Requests a matrix `[outputs, inputs]` whose rows are read when they are asked for, as f32. */
  rows(name: string, outputs: number, inputs: number): (ids: ArrayLike<number>) => Promise<Float32Array>;
  /**
   * Requests the matrices `[outputs, inputs]` of several experts in one tensor, as one matrix `[experts * outputs, inputs]`;
   * `transposed`: a tensor that is not quantised holds `[inputs, outputs]` of each.
   */
  experts(
    name: string,
    shape: readonly [experts: number, outputs: number, inputs: number],
    transposed?: boolean,
  ): LazyRead<Matrix>;
  /** Returns whether the file has a tensor. */
  has(name: string): boolean;
  /**
   * Checks that every tensor of the file was requested or is `harmless`.
   * @throws KvError for any other tensor, since ignoring it would silently change the model
   */
  checkNames(harmless: (name: string) => boolean, what: string): void;
}

/**
 * Returns a reader of a checkpoint's tensors.
 * @param byRows whether matrices stay in the file until their rows are read, but those of MXFP4 and those whose
 * rows change places over all of them; see `Weights.byRows`
 * @throws KvError from `matrix` and `vector` for a tensor that is missing or has another shape or type; from the reads
 * they return, for a number that is not finite
 */
export function tensorReader(file: CheckpointTensors, byRows = false): TensorReader {
  const asked = new Set<string>();
  /** Reads bytes of a tensor, the first of which are its number `first`. */
  const finite = async (name: string, type: TensorType, first = 0, part?: BytesPart): Promise<Uint8Array> => {
    const bytes = await file.bytes(name, part),
      bad = notFinite(type, bytes);
    if (bad < 0) return bytes;
    throw new KvError(file.name, `${name} must hold finite numbers, got NaN or an infinity at index ${first + bad}`);
  };
  /**
   * Checks a tensor against the header.
   * @param leading dimensions, from the first on, whose product is the number of rows
   */
  const request = (
    name: string,
    shape: readonly number[],
    leading = 1,
  ): { readonly type: TensorType; readonly rows: number; readonly inputs: number } => {
    asked.add(name);
    const entry = file.tensors.get(name),
      want = JSON.stringify(shape);
    if (entry === undefined)
      throw new KvError(file.name, `expected a tensor ${name} of shape ${want}, got a file without it`);
    if (!same(entry.shape, shape))
      throw new KvError(file.name, `${name} must have shape ${want}, got ${show(entry.shape)}`);
    const type = weightType(entry.type, `${file.name} ${name}`),
      product = (sizes: readonly number[]): number => sizes.reduce((all, size) => all * size, 1),
      rows = product(shape.slice(0, leading)),
      inputs = product(shape.slice(leading)),
      { numbers } = tensorTypes[type];
    if (inputs % numbers !== 0)
      throw new KvError(
        file.name,
        `${name} must have rows of whole blocks of ${numbers} numbers of ${type}, got rows of ${inputs}`,
      );
    return { type, rows, inputs };
  };
  const read = (
    name: string,
    shape: readonly number[],
    order?: Reordering | undefined,
    leading = 1,
  ): LazyRead<Matrix> => {
    const { type, rows, inputs } = request(name, shape, leading);
    return async () => {
      const parts = [{ type, rows, bytes: await finite(name, type) }],
        whole: Matrix = { outputs: rows, inputs, parts };
      return order === undefined ? whole : order(whole);
    };
  };
  return {
    matrix(name, outputs, inputs, order) {
      const whole = read(name, [outputs, inputs], order),
        { type } = request(name, [outputs, inputs]);
      if (!byRows || (order && !order.runs) || type === 'MXFP4') return whole;
      const { numbers, bytes } = tensorTypes[type],
        row = (inputs / numbers) * bytes,
        { runs } = order ?? {};
      const some: RowsRead = async (from, count, into) => {
        const stored = await finite(name, type, from * inputs, { from: from * row, length: count * row, into });
        if (runs === undefined) return stored;
        const own = stored === into ? stored : stored.slice();
        runs.order(own, row);
        return own;
      };
      const unread = unreadRows(type, outputs, some, runs?.unit);
      return async () => ({ outputs, inputs, parts: [unread] });
    },
    vector(name, width, order) {
      const load = read(name, [width], order);
      return async () => dense(await load()).slice();
    },
    kernel(name, channels, length) {
      const others = [[channels, 1, length], ...(channels === 1 ? [[length]] : [])], // as PyTorch stores it, or without a 1
        load = read(name, others.find((shape) => same(file.tensors.get(name)?.shape, shape)) ?? [channels, length]);
      return async () => dense(await load()).slice();
    },
    rows(name, outputs, inputs) {
      const { type } = request(name, [outputs, inputs]),
        { numbers, bytes: size } = tensorTypes[type],
        row = (inputs / numbers) * size;
      return async (ids) => {
        const known = new Map<number, Promise<Float32Array>>(),
          one = async (id: number): Promise<Float32Array> => {
            const from = id * row,
              bytes =
                type === 'MXFP4' // which may be stored in two tensors
                  ? (await finite(name, type)).subarray(from, from + row)
                  : await finite(name, type, id * inputs, { from, length: row });
            return floatRows(type, bytes, inputs, 0, 1);
          };
        for (let i = 0; i < ids.length; i++) if (!known.has(ids[i])) known.set(ids[i], one(ids[i]));
        const rows = new Map(await Promise.all(Array.from(known, async ([id, read]) => [id, await read] as const))),
          out = new Float32Array(ids.length * inputs);
        for (let i = 0; i < ids.length; i++) out.set(rows.get(ids[i])!, i * inputs); // each is known
        return out;
      };
    },
    experts(name, [experts, outputs, inputs], transposed = false) {
      const type = file.tensors.get(name)?.type ?? '';
      if (!transposed || !Object.hasOwn(tensorTypes, type) || tensorTypes[type as TensorType].numbers > 1)
        return read(name, [experts, outputs, inputs], undefined, 2);
      return read(name, [experts, inputs, outputs], transpose(experts), 2);
    },
    has: (name) => file.tensors.has(name),
    checkNames(harmless, what) {
      for (const name of file.tensors.keys())
        if (!asked.has(name) && !harmless(name))
          throw new KvError(file.name, `unexpected tensor ${show(name)}: expected only ${what}`);
    },
  };
}

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

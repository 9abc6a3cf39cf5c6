import { KvError } from '@kv/core';
import { show } from '../read/fields.ts';
import { dense, type Matrix, type Reordering } from './matrix.ts';
import type { CheckpointTensors } from './tensor-file.ts';
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
 * @throws KvError from `matrix` and `vector` for a tensor that is missing or has another shape or type; from the reads
 * they return, for a number that is not finite
 */
export function tensorReader(file: CheckpointTensors): TensorReader {
  const asked = new Set<string>();
  /** Checks a tensor, and returns its type. */
  const expect = (name: string, shape: readonly number[]): TensorType => {
    asked.add(name);
    const entry = file.tensors.get(name),
      want = JSON.stringify(shape);
    if (entry === undefined)
      throw new KvError(file.name, `expected a tensor ${name} of shape ${want}, got a file without it`);
    if (!same(entry.shape, shape))
      throw new KvError(file.name, `${name} must have shape ${want}, got ${show(entry.shape)}`);
    const type = weightType(entry.type, `${file.name} ${name}`),
      inputs = shape.slice(1).reduce((product, size) => product * size, 1),
      { numbers } = tensorTypes[type];
    if (inputs % numbers !== 0)
      throw new KvError(
        file.name,
        `${name} must have rows of whole blocks of ${numbers} numbers of ${type}, got rows of ${inputs}`,
      );
    return type;
  };
  const expectFinite = (name: string, type: TensorType, bytes: Uint8Array): void => {
    const bad = notFinite(type, bytes);
    if (bad >= 0)
      throw new KvError(file.name, `${name} must hold finite numbers, got NaN or an infinity at index ${bad}`);
  };
  const read = (name: string, shape: readonly number[], order?: Reordering | undefined): LazyRead<Matrix> => {
    const type = expect(name, shape),
      [rows = 0, ...rest] = shape,
      inputs = rest.reduce((product, size) => product * size, 1);
    return async () => {
      const bytes = await file.bytes(name);
      expectFinite(name, type, bytes);
      const whole: Matrix = { outputs: rows, inputs, parts: [{ type, rows, bytes }] };
      return order === undefined ? whole : order(whole);
    };
  };
  return {
    matrix: (name, outputs, inputs, order) => read(name, [outputs, inputs], order),
    vector(name, width, order) {
      const load = read(name, [width], order);
      return async () => dense(await load()).slice();
    },
    kernel(name, channels, length) {
      const apart = [channels, 1, length]; // as PyTorch stores it
      const load = read(name, same(file.tensors.get(name)?.shape, apart) ? apart : [channels, length]);
      return async () => dense(await load()).slice();
    },
    rows(name, outputs, inputs) {
      const type = expect(name, [outputs, inputs]),
        { numbers, bytes: size } = tensorTypes[type],
        row = (inputs / numbers) * size;
      return async (ids) => {
        const known = new Map<number, Promise<Float32Array>>(),
          one = async (id: number): Promise<Float32Array> => {
            const bytes = await file.part(name, id * row, row);
            expectFinite(name, type, bytes);
            return floatRows(type, bytes, inputs, 0, 1);
          };
        for (let i = 0; i < ids.length; i++) if (!known.has(ids[i])) known.set(ids[i], one(ids[i]));
        const rows = new Map(await Promise.all(Array.from(known, async ([id, read]) => [id, await read] as const))),
          out = new Float32Array(ids.length * inputs);
        for (let i = 0; i < ids.length; i++) out.set(rows.get(ids[i])!, i * inputs); // each is known
        return out;
      };
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

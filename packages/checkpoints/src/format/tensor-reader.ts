import { KvError } from '@kv/core';
import { show } from '../read/fields.ts';
import { dense, transpose, type Matrix, type Reordering } from './matrix.ts';
import type { CheckpointTensors } from './tensor-file.ts';
import { notFinite, tensorTypes, weightType, type TensorType } from './tensor-types.ts';

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
 * @throws KvError from `matrix` and `vector` for a tensor that is missing or has another shape or type; from the reads
 * they return, for a number that is not finite
 */
export function tensorReader(file: CheckpointTensors): TensorReader {
  const asked = new Set<string>();
  /** @param leading dimensions, from the first on, whose product is the number of rows */
  const read = (
    name: string,
    shape: readonly number[],
    order?: Reordering | undefined,
    leading = 1,
  ): LazyRead<Matrix> => {
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
    return async () => {
      const bytes = await file.bytes(name),
        bad = notFinite(type, bytes);
      if (bad >= 0)
        throw new KvError(file.name, `${name} must hold finite numbers, got NaN or an infinity at index ${bad}`);
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
      const others = [[channels, 1, length], ...(channels === 1 ? [[length]] : [])], // as PyTorch stores it, or without a 1
        load = read(name, others.find((shape) => same(file.tensors.get(name)?.shape, shape)) ?? [channels, length]);
      return async () => dense(await load()).slice();
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

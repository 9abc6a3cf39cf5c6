import { KvError } from '@kv/core';
import { show } from '../read/fields.ts';
import type { Cursor } from './gguf-cursor.ts';
import { ggmlType } from './gguf-types.ts';
import { product } from './safetensors.ts';
import type { TensorEntry } from './tensor-file.ts';

/** `[begin, end)` are bytes of the data part. For a type whose layout is unknown, `end` equals `begin`. */
export interface GgufTensor extends TensorEntry {
  readonly begin: number;
  readonly end: number;
}

const maxDimensions = 4;

/** Fewest bytes of a tensor's description: name length, number of dimensions, type, offset. */
const minInfo = 24;

/**
 * Reads the `count` tensor descriptions at the cursor.
 * @throws KvError for a duplicate name, a row that is not whole blocks, or a misaligned offset
 */
export function readTensorInfos(cursor: Cursor, count: number, alignment: number): ReadonlyMap<string, GgufTensor> {
  if (count * minInfo > cursor.left())
    throw new KvError(
      cursor.where,
      `expected the descriptions of ${count} tensors, got ${cursor.left()} more bytes: the file is cut`,
    );
  const tensors = new Map<string, GgufTensor>();
  for (let i = 0; i < count; i++) {
    const name = cursor.text('a tensor name');
    if (tensors.has(name)) throw new KvError(cursor.where, `expected each tensor once, got ${show(name)} twice`);
    tensors.set(name, readInfo(cursor, `${cursor.where} ${show(name)}`, alignment));
  }
  return tensors;
}

function readInfo(cursor: Cursor, at: string, alignment: number): GgufTensor {
  const dimensions = cursor.u32('a tensor');
  if (dimensions > maxDimensions)
    throw new KvError(at, `expected at most ${maxDimensions} dimensions, got ${dimensions}`);
  const shape: number[] = [];
  for (let i = 0; i < dimensions; i++) shape.unshift(cursor.u64(`a dimension of ${at}`));
  const { name: type, layout } = ggmlType(cursor.u32('a tensor type'));
  const begin = cursor.u64(`the offset of ${at}`);
  if (begin % alignment !== 0) throw new KvError(at, `the offset must be a multiple of ${alignment}, got ${begin}`);
  const numbers = product(shape, at);
  if (layout === undefined) return { type, shape, begin, end: begin };
  const row = shape.at(-1) ?? 1;
  if (row % layout.numbers !== 0)
    throw new KvError(at, `rows of ${type} must hold whole blocks of ${layout.numbers} numbers, got ${row}`);
  return { type, shape, begin, end: begin + (numbers / layout.numbers) * layout.bytes };
}

/** Checks that tensors lie within the `size` bytes of data and do not overlap. */
export function checkGgufLayout(tensors: ReadonlyMap<string, GgufTensor>, size: number, where: string): void {
  let free = 0;
  const order = [...tensors].sort(([, a], [, b]) => a.begin - b.begin || a.end - b.end);
  for (const [name, { begin, end }] of order) {
    if (begin < free)
      throw new KvError(
        `${where} ${show(name)}`,
        `the offset must be at least ${free}, where the tensor before ends, got ${begin}`,
      );
    if (end > size)
      throw new KvError(
        `${where} ${show(name)}`,
        `the tensor must end within the ${Math.max(0, size)} bytes of data, got ${end}: the file is cut`,
      );
    free = end;
  }
}

import { KvError } from '@kv/core';
import { object, show } from '../read/fields.ts';
import { parseJson } from '../read/json.ts';
import type { ByteSource } from '../read/source.ts';
import { withMxPairs } from './mx-pairs.ts';
import { missing, type TensorEntry, type CheckpointTensors } from './tensor-file.ts';
import { weightType } from './tensor-types.ts';

/** `[begin, end)` are bytes of the data part. */
interface Placed extends TensorEntry {
  readonly begin: number;
  readonly end: number;
}

const itemBits: Readonly<Record<string, number>> = {
  BOOL: 8,
  U8: 8,
  I8: 8,
  F8_E4M3: 8,
  F8_E5M2: 8,
  U16: 16,
  I16: 16,
  F16: 16,
  BF16: 16,
  U32: 32,
  I32: 32,
  F32: 32,
  U64: 64,
  I64: 64,
  F64: 64,
  F4: 4,
  F6_E2M3: 6,
  F6_E3M2: 6,
  F8_E8M0: 8,
  C64: 64,
};

/** The format's own limit on the header, bytes. */
const maxHeader = 100_000_000;

/**
 * Opens a safetensors file: reads and checks the header only; tensors are read on demand. Blocks of MXFP4 and their scales
 * are one tensor. `close` closes the source.
 * @throws KvError in one sentence for a header that is truncated, is not JSON, or contradicts the file: types, shapes,
 * offsets, overlaps, gaps
 */
export const readSafetensors = async (source: ByteSource): Promise<CheckpointTensors> =>
  withMxPairs(await readStored(source));

/** Opens a safetensors file like `readSafetensors`, with the tensors that it stores, which may be half of a pair. */
export async function readStored(source: ByteSource): Promise<CheckpointTensors> {
  const where = source.name;
  if (source.size < 8) throw new KvError(where, `expected a safetensors file of at least 8 bytes, got ${source.size}`);
  const prefix = await source.read(0, 8);
  const length = Number(new DataView(prefix.buffer, prefix.byteOffset).getBigUint64(0, true));
  if (length > maxHeader || length > source.size - 8)
    throw new KvError(
      where,
      `expected a header of at most ${Math.min(maxHeader, source.size - 8)} bytes, got a length of ${length}`,
    );
  const header = object(parseJson(await source.read(8, length), where, 4), where, 'the header');
  const tensors = new Map<string, Placed>();
  for (const [name, value] of Object.entries(header))
    if (name !== '__metadata__') tensors.set(name, placed(name, value, where));
  checkLayout(tensors, source.size - 8 - length, where);
  return {
    name: where,
    tensors,
    async bytes(tensor, part) {
      const found = tensors.get(tensor);
      if (found === undefined) throw missing(where, tensor);
      const { type, begin, end } = found,
        { from = 0, length: count = end - begin, into } = part ?? {};
      if (type !== 'U8') weightType(type, `${where} ${show(tensor)}`); // half of a pair
      return source.read(8 + length + begin + from, count, into);
    },
    close: () => source.close(),
  };
}

function placed(name: string, value: unknown, where: string): Placed {
  const at = `${where} ${show(name)}`;
  const { dtype, shape, data_offsets: offsets } = object(value, at, 'the entry');
  const bits = typeof dtype === 'string' && Object.hasOwn(itemBits, dtype) ? itemBits[dtype] : undefined;
  if (bits === undefined)
    throw new KvError(at, `dtype must be one of ${Object.keys(itemBits).join(', ')}, got ${show(dtype)}`);
  if (!isCounts(shape)) throw new KvError(at, `shape must be a list of integers of at least 0, got ${show(shape)}`);
  if (!isCounts(offsets) || offsets.length !== 2)
    throw new KvError(at, `data_offsets must be two integers of at least 0, got ${show(offsets)}`);
  const [begin = 0, end = 0] = offsets;
  const want = (product(shape, at) * bits) / 8;
  if (end - begin !== want)
    throw new KvError(
      at,
      `data_offsets must span ${want} bytes for ${dtype as string} ${show(shape)}, got ${show(offsets)}`,
    );
  return { type: dtype as string, shape, begin, end };
}

/**
 * Returns the number of elements of a shape.
 * @throws KvError if the count is not exact as an integer, even if another dimension is 0
 */
export function product(shape: readonly number[], at: string): number {
  if (shape.reduce((all, n) => all * Math.max(1, n), 1) > Number.MAX_SAFE_INTEGER)
    throw new KvError(at, `shape must hold fewer than 2^53 numbers, got ${show(shape)}`);
  return shape.reduce((all, n) => all * n, 1);
}

/** Checks that tensors fill the data part, each byte once. */
function checkLayout(tensors: ReadonlyMap<string, Placed>, size: number, where: string): void {
  let at = 0;
  const order = [...tensors].sort(([, a], [, b]) => a.begin - b.begin || a.end - b.end);
  for (const [name, { begin, end }] of order) {
    if (begin !== at)
      throw new KvError(
        `${where} ${show(name)}`,
        `data_offsets must begin at ${at}, where the tensor before ends, got ${begin}`,
      );
    if (end > size)
      throw new KvError(
        `${where} ${show(name)}`,
        `data_offsets must end within the ${size} bytes of data, got ${end}: the file is cut`,
      );
    at = end;
  }
  if (at !== size) throw new KvError(where, `expected ${at} bytes of data, got ${size}`);
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((x) => Number.isSafeInteger(x) && x >= 0);
}

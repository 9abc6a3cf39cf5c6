import { KvError } from '@kv/core';
import { object, show, type Fields } from './fields.ts';
import { toFloat32 } from './to-float32.ts';
import type { Source } from './source.ts';

/** One tensor of the file: `[begin, end)` are bytes of the data part. */
export interface TensorInfo {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly begin: number;
  readonly end: number;
}

/** A checked header and a reader of one tensor at a time. */
export interface Safetensors {
  readonly name: string;
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  /** The values in row-major order, f32. @throws KvError for a missing tensor and for types other than F32, F16 and BF16. */
  read(tensor: string): Promise<Float32Array>;
}

const itemBytes: Readonly<Record<string, number>> = {
  BOOL: 1, U8: 1, I8: 1, F8_E4M3: 1, F8_E5M2: 1, U16: 2, I16: 2, F16: 2, BF16: 2, U32: 4, I32: 4, F32: 4, U64: 8, I64: 8, F64: 8,
};

/** The format's own limit on the header, bytes. */
const maxHeader = 100_000_000;

/**
 * Opens a safetensors file: reads and checks the header alone; tensors are read when asked for.
 * @throws KvError in one sentence for a header that is cut, no JSON, or disagrees with the file: types, shapes, offsets, overlaps, gaps.
 */
export async function readSafetensors(source: Source): Promise<Safetensors> {
  const where = source.name;
  if (source.size < 8) throw new KvError(where, `expected a safetensors file of at least 8 bytes, got ${source.size}`);
  const length = Number(view(await source.read(0, 8)).getBigUint64(0, true));
  if (length > maxHeader || length > source.size - 8)
    throw new KvError(where, `expected a header of at most ${Math.min(maxHeader, source.size - 8)} bytes, got a length of ${length}`);
  const header = parseHeader(await source.read(8, length), where);
  const tensors = new Map<string, TensorInfo>();
  for (const [name, value] of Object.entries(header)) if (name !== '__metadata__') tensors.set(name, parseTensor(name, value, where));
  checkLayout(tensors, source.size - 8 - length, where);
  return {
    name: where,
    tensors,
    async read(name) {
      const info = tensors.get(name);
      if (info === undefined) throw new KvError(where, `expected a tensor ${name}, got a file without it`);
      const bytes = await source.read(8 + length + info.begin, info.end - info.begin);
      return toFloat32(bytes, info.dtype, `${where} ${name}`);
    },
  };
}

function parseHeader(bytes: Uint8Array, where: string): Fields {
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw new KvError(where, `expected a header of JSON in UTF-8, got ${show(new TextDecoder().decode(bytes.subarray(0, 40)))}`);
  }
  return object(header, where, 'the header');
}

function parseTensor(name: string, value: unknown, where: string): TensorInfo {
  const at = `${where} ${show(name)}`;
  const { dtype, shape, data_offsets: offsets } = object(value, at, 'the entry');
  const bytes = typeof dtype === 'string' && Object.hasOwn(itemBytes, dtype) ? itemBytes[dtype] : undefined;
  if (bytes === undefined) throw new KvError(at, `dtype must be one of ${Object.keys(itemBytes).join(', ')}, got ${show(dtype)}`);
  if (!isCounts(shape)) throw new KvError(at, `shape must be a list of integers of at least 0, got ${show(shape)}`);
  if (!isCounts(offsets) || offsets.length !== 2) throw new KvError(at, `data_offsets must be two integers of at least 0, got ${show(offsets)}`);
  const [begin = 0, end = 0] = offsets;
  const want = shape.reduce((product, n) => product * n, bytes);
  if (end - begin !== want)
    throw new KvError(at, `data_offsets must span ${want} bytes for ${dtype as string} ${show(shape)}, got ${show(offsets)}`);
  return { dtype: dtype as string, shape, begin, end };
}

/** Tensors must fill the data part, each byte once. */
function checkLayout(tensors: ReadonlyMap<string, TensorInfo>, size: number, where: string): void {
  let at = 0;
  const order = [...tensors].sort(([, a], [, b]) => a.begin - b.begin || a.end - b.end);
  for (const [name, { begin, end }] of order) {
    if (begin !== at) throw new KvError(`${where} ${show(name)}`, `data_offsets must begin at ${at}, where the tensor before ends, got ${begin}`);
    if (end > size) throw new KvError(`${where} ${show(name)}`, `data_offsets must end within the ${size} bytes of data, got ${end}: the file is cut`);
    at = end;
  }
  if (at !== size) throw new KvError(where, `expected ${at} bytes of data, got ${size}`);
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((x) => Number.isSafeInteger(x) && x >= 0);
}

function view(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

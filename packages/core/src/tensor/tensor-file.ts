import { KvError } from './errors.ts';
import { sizeOf } from './tensor.ts';

/** Numbers of a file stored next to a model. */
export interface FileTensor {
  readonly shape: readonly number[];
  readonly data: Float32Array;
}
/** Tensors of a file stored next to a model, by name, and its metadata. */
export interface TensorFile {
  readonly tensors: Readonly<Record<string, FileTensor>>;
  readonly metadata: Readonly<Record<string, string>>;
}

const PREFIX = 8,
  LONGEST_HEADER = 65_536;
/** Size of a number in bytes, and its reader. */
const TYPES: Readonly<Record<string, { readonly bytes: number; read(view: DataView, at: number): number }>> = {
  F32: { bytes: 4, read: (view, at) => view.getFloat32(at, true) },
  BF16: { bytes: 2, read: (view, at) => fromBits(view.getUint16(at, true) << 16) },
  F16: { bytes: 2, read: (view, at) => fromHalf(view.getUint16(at, true)) },
};
const scratch = new DataView(new ArrayBuffer(4));
function fromBits(word: number): number {
  scratch.setInt32(0, word);
  return scratch.getFloat32(0);
}
function fromHalf(half: number): number {
  const sign = half >> 15 ? -1 : 1,
    exponent = (half >> 10) & 31,
    fraction = half & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15));
}

/** Encodes tensors as a safetensors file, f32. */
export function tensorFile({ tensors, metadata }: TensorFile): Uint8Array {
  const entries = Object.entries(tensors);
  let end = 0;
  const placed = entries.map(([name, { shape, data }]) => [
    name,
    { dtype: 'F32', shape, data_offsets: [end, (end += 4 * data.length)] },
  ]);
  const header = new TextEncoder().encode(JSON.stringify({ __metadata__: metadata, ...Object.fromEntries(placed) }));
  const start = PREFIX + Math.ceil(header.length / 8) * 8,
    file = new Uint8Array(start + end).fill(32, PREFIX, start),
    view = new DataView(file.buffer);
  view.setBigUint64(0, BigInt(start - PREFIX), true);
  file.set(header, PREFIX);
  entries
    .flatMap(([, { data }]) => [data])
    .reduce((at, data) => {
      data.forEach((x, i) => view.setFloat32(at + 4 * i, x, true));
      return at + 4 * data.length;
    }, start);
  return file;
}

const isRecord = (x: unknown): x is Readonly<Record<string, unknown>> =>
  typeof x === 'object' && x !== null && !Array.isArray(x);
const isCounts = (x: unknown): x is readonly number[] =>
  Array.isArray(x) && x.every((n) => Number.isSafeInteger(n) && n >= 0);

/** The header of a safetensors file, and where its numbers begin. */
function headerOf(where: string, file: Uint8Array): { entries: Readonly<Record<string, unknown>>; start: number } {
  const refuse = (expected: string): KvError => new KvError(where, `expected ${expected}`);
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength),
    size = file.length >= PREFIX ? Number(view.getBigUint64(0, true)) : Infinity;
  if (!(size <= Math.min(file.length - PREFIX, LONGEST_HEADER)))
    throw refuse(`a safetensors file with a header of at most 64 KiB, got ${file.length} bytes`);
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder().decode(file.subarray(PREFIX, PREFIX + size)));
  } catch {
    header = undefined;
  }
  if (!isRecord(header)) throw refuse('a header of JSON');
  return { entries: header, start: PREFIX + size };
}

/**
 * Returns the names of the tensors of a safetensors file.
 * @param where name of the file, for errors
 * @throws KvError at `where` for any other bytes
 */
export const tensorNames = (where: string, file: Uint8Array): readonly string[] =>
  Object.keys(headerOf(where, file).entries).filter((name) => name !== '__metadata__');

/**
 * Reads the tensors of these names from a safetensors file of f32, f16 or bf16.
 * @param where name of the file, for errors
 * @throws KvError at `where` for any other bytes, a missing name, or a number that is not finite.
 */
export function readTensorFile(where: string, file: Uint8Array, names: readonly string[]): TensorFile {
  const refuse = (expected: string): KvError => new KvError(where, `expected ${expected}`);
  const { entries, start } = headerOf(where, file),
    view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const tensors = names.map((name): readonly [string, FileTensor] => {
    const entry = Object.hasOwn(entries, name) && isRecord(entries[name]) ? entries[name] : {},
      { shape, data_offsets: offsets, dtype } = entry;
    const type = typeof dtype === 'string' && Object.hasOwn(TYPES, dtype) ? TYPES[dtype] : undefined;
    if (
      !type ||
      !isCounts(shape) ||
      !isCounts(offsets) ||
      offsets.length !== 2 ||
      offsets[1] - offsets[0] !== type.bytes * sizeOf(shape) ||
      start + offsets[1] > file.length
    )
      throw refuse(`'${name}' as f32, f16 or bf16 inside the file`);
    const data = Float32Array.from({ length: sizeOf(shape) }, (_, i) =>
      type.read(view, start + offsets[0] + type.bytes * i),
    );
    if (!data.every(Number.isFinite)) throw refuse(`finite numbers in '${name}'`);
    return [name, { shape, data }];
  });
  const said = isRecord(entries['__metadata__'])
    ? Object.entries(entries['__metadata__']).map(([key, value]) => [key, String(value)])
    : [];
  return { tensors: Object.fromEntries(tensors), metadata: Object.fromEntries(said) };
}

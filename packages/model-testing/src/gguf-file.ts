/** Kinds of metadata, by the number that a file gives. */
export const kind = {
  u8: 0,
  i8: 1,
  u16: 2,
  i16: 3,
  u32: 4,
  i32: 5,
  f32: 6,
  bool: 7,
  string: 8,
  list: 9,
  u64: 10,
  i64: 11,
  f64: 12,
} as const;

/** A value to write: its kind and its bytes. */
export interface GgufValueBytes {
  readonly kind: number;
  readonly bytes: Uint8Array;
}

/** A tensor to write; `dimensions` in ggml's order, the contiguous one first. */
export interface GgufWritten {
  readonly name: string;
  readonly dimensions: readonly (number | bigint)[];
  readonly type: number;
  readonly offset: number | bigint;
}

export interface GgufParts {
  readonly version?: number;
  readonly metadata?: readonly (readonly [string, GgufValueBytes])[];
  readonly tensors?: readonly GgufWritten[];
  /** Bytes of data; its start is aligned. */
  readonly data?: number;
  readonly tensorCount?: bigint;
  readonly metadataCount?: bigint;
}

export const u8 = (x: number): GgufValueBytes => ({ kind: kind.u8, bytes: Uint8Array.of(x) });
export const u16 = (x: number): GgufValueBytes => ({
  kind: kind.u16,
  bytes: little(2, (view) => view.setUint16(0, x, true)),
});
export const u32 = (x: number): GgufValueBytes => ({ kind: kind.u32, bytes: word(x) });
export const i32 = (x: number): GgufValueBytes => ({ kind: kind.i32, bytes: word(x) });
export const u64 = (x: number | bigint): GgufValueBytes => ({ kind: kind.u64, bytes: long(x) });
export const i64 = (x: number | bigint): GgufValueBytes => ({ kind: kind.i64, bytes: long(x) });
export const f32 = (x: number): GgufValueBytes => ({
  kind: kind.f32,
  bytes: little(4, (view) => view.setFloat32(0, x, true)),
});
export const bool = (x: number): GgufValueBytes => ({ kind: kind.bool, bytes: Uint8Array.of(x) });
export const string = (text: string): GgufValueBytes => ({ kind: kind.string, bytes: written(text) });
/** Returns a list of elements of one kind; `count` may be wrong. */
export const list = (
  of: number,
  values: readonly GgufValueBytes[],
  count: number | bigint = values.length,
): GgufValueBytes => ({
  kind: kind.list,
  bytes: joinAll([word(of), long(count)].concat(values.map(({ bytes }) => bytes))),
});

/** Writes a little-endian GGUF file from the given parts without checking them. */
export function writeGguf({
  version = 3,
  metadata = [],
  tensors = [],
  data = 0,
  tensorCount,
  metadataCount,
}: GgufParts): Uint8Array<ArrayBuffer> {
  const header = join(
    new TextEncoder().encode('GGUF'),
    word(version),
    long(tensorCount ?? tensors.length),
    long(metadataCount ?? metadata.length),
    ...metadata.flatMap(([name, value]) => [written(name), word(value.kind), value.bytes]),
    ...tensors.flatMap(({ name, dimensions, type, offset }) => [
      written(name),
      word(dimensions.length),
      ...dimensions.map(long),
      word(type),
      long(offset),
    ]),
  );
  return join(header, new Uint8Array((data === 0 ? 0 : -header.length & 31) + data));
}

export const join = (...parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> => joinAll(parts);

function joinAll(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(parts.reduce((n, part) => n + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

function little(bytes: number, set: (view: DataView) => void): Uint8Array {
  const out = new Uint8Array(bytes);
  set(new DataView(out.buffer));
  return out;
}

const word = (x: number): Uint8Array => little(4, (view) => view.setUint32(0, x, true));
const long = (x: number | bigint): Uint8Array =>
  little(8, (view) => view.setBigUint64(0, BigInt.asUintN(64, BigInt(x)), true));
const written = (text: string): Uint8Array => {
  const bytes = new TextEncoder().encode(text);
  return join(long(bytes.length), bytes);
};

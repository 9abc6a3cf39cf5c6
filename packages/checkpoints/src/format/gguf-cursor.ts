import { KvError } from '@kv/core';

/** Thrown if a header continues past the bytes read so far while the file continues too. */
export const short: Error = new Error('the header goes on');

/** Reads a header's little-endian fields in sequence. */
export interface Cursor {
  readonly where: string;
  /** Returns the offset of the next byte in the file. */
  at(): number;
  /** Returns the number of bytes left in the file. */
  left(): number;
  /**
   * Takes the next `n` bytes and returns their offset in `view`.
   * @throws KvError if the file ends first, or `short` if only the bytes do
   */
  take(n: number, what: string): number;
  readonly view: DataView;
  u32(what: string): number;
  /** @throws KvError above 2^53 - 1. */
  u64(what: string): number;
  /** Reads a length and its UTF-8 text. @throws KvError for invalid UTF-8 */
  text(what: string): string;
  /** Reads `count` texts with one call of the decoder, since a vocabulary has half a million. */
  texts(count: number, what: string): readonly string[];
}

/** Returns a cursor at the beginning of a file of `size` bytes, of which `bytes` are the first. */
export function createCursor(bytes: Uint8Array, size: number, where: string): Cursor {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  let at = 0;

  const take = (n: number, what: string): number => {
    const start = at;
    if (n > size - start)
      throw new KvError(
        where,
        `expected ${n} bytes of ${what} at ${start}, got a file of ${size} bytes: the file is cut`,
      );
    if (n > bytes.length - start) throw short;
    at = start + n;
    return start;
  };
  const u64 = (what: string): number => {
    const start = take(8, what);
    const high = view.getUint32(start + 4, true);
    if (high < 2 ** 21) return high * 2 ** 32 + view.getUint32(start, true);
    throw new KvError(where, `${what} must be below 2^53, got ${view.getBigUint64(start, true)}`);
  };
  const decoded = (from: number, to: number, of: Uint8Array, what: string): string => {
    try {
      return utf8.decode(of.subarray(from, to));
    } catch {
      throw new KvError(where, `${what} must be UTF-8, got other bytes`);
    }
  };
  const text = (what: string): string => {
    const length = u64(what);
    const start = take(length, what);
    return decoded(start, start + length, bytes, what);
  };
  const texts = (count: number, what: string): string[] => {
    const begin = at;
    take(8 * count, what); // each has a length: what the file cannot hold is not allocated
    at = begin;
    const ends = new Uint32Array(2 * count);
    for (let i = 0; i < count; i++) {
      ends[2 * i] = take(u64(what), what) - begin;
      ends[2 * i + 1] = at - begin;
    }
    const packed = bytes.slice(begin, at);
    let length = 0;
    for (let i = 0; i < count; i++) {
      const from = ends[2 * i];
      const to = ends[2 * i + 1];
      // The whole decodes to whole characters, and no text begins inside a character: so each text is whole characters.
      if (to > from && (packed[from] & 0xc0) === 0x80)
        throw new KvError(where, `${what} must be UTF-8, got other bytes`);
      packed.copyWithin(length, from, to);
      length += to - from;
    }
    const all = decoded(0, length, packed, what);
    const out: string[] = [];
    for (let i = 0, byte = 0, unit = 0; i < count; i++) {
      const first = unit;
      for (const last = byte + ends[2 * i + 1] - ends[2 * i]; byte < last; byte++) unit += utf16Units(packed[byte]);
      out.push(all.slice(first, unit));
    }
    return out;
  };
  return {
    where,
    view,
    at: () => at,
    left: () => size - at,
    take,
    u32: (what) => view.getUint32(take(4, what), true),
    u64,
    text,
    texts,
  };
}

/** UTF-16 code units contributed by a byte of UTF-8; those of a character are counted at its first byte. */
function utf16Units(byte: number): number {
  if ((byte & 0xc0) === 0x80) return 0;
  return byte < 0xf0 ? 1 : 2;
}

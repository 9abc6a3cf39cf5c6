import { parseJson } from '@kv/checkpoints';
import { KvError } from '@kv/core';

const isSpace = (byte: number): boolean => byte === 32 || (byte >= 9 && byte <= 13),
  MARK = [0xef, 0xbb, 0xbf]; // a byte order mark

/**
 * Returns the rows of a JSON array or of JSON lines, each with its place for error messages.
 * @param of what the rows are, for the error about an empty file
 */
export function rowsIn(
  whole: Uint8Array,
  name: string,
  of: string,
): readonly (readonly [place: string, row: unknown])[] {
  const bytes = MARK.every((byte, i) => whole[i] === byte) ? whole.subarray(MARK.length) : whole,
    first = bytes.find((byte) => !isSpace(byte));
  if (first === undefined) throw new KvError(name, `expected ${of}, got an empty file`);
  if (first === '['.charCodeAt(0))
    return (parseJson(bytes, name) as readonly unknown[]).map((row, i) => [`${name}, row ${i + 1}`, row]);
  const rows: (readonly [string, unknown])[] = [];
  for (let from = 0, line = 1; from < bytes.length; line++) {
    const end = bytes.indexOf(10, from),
      to = end < 0 ? bytes.length : end,
      part = bytes.subarray(from, to),
      place = `${name}, line ${line}`;
    if (!part.every(isSpace)) rows.push([place, parseJson(part, place)]);
    from = to + 1;
  }
  return rows;
}

import { parseJson } from '@kv/checkpoints';
import { KvError } from '@kv/core';

const isSpace = (byte: number): boolean => byte === 32 || (byte >= 9 && byte <= 13),
  MARK = [0xef, 0xbb, 0xbf]; // a byte order mark

type Row = readonly [place: string, row: unknown];

/**
 * Returns the rows of a JSON array, of JSON lines, of one object, or of the `data` of an object with a `version`, each
 * with its place for error messages.
 * @param of what the rows are, for the error about an empty file
 */
export function rowsIn(whole: Uint8Array, name: string, of: string): readonly Row[] {
  const bytes = MARK.every((byte, i) => whole[i] === byte) ? whole.subarray(MARK.length) : whole,
    first = bytes.find((byte) => !isSpace(byte));
  if (first === undefined) throw new KvError(name, `expected ${of}, got an empty file`);
  const numbered = (all: readonly unknown[]): readonly Row[] => all.map((row, i) => [`${name}, row ${i + 1}`, row]);
  if (first === '['.charCodeAt(0)) return numbered(parseJson(bytes, name) as readonly unknown[]);
  const rows = linesIn(bytes, name),
    [[, only]] = rows;
  return rows.length === 1 && isVersion(only) ? numbered(only.data) : rows;
}

/** Whether an object is a version of a data set, as CoQA and SQuAD publish it. */
const isVersion = (row: unknown): row is { readonly data: readonly unknown[] } =>
  typeof row === 'object' && row !== null && 'version' in row && 'data' in row && Array.isArray(row.data);

function linesIn(bytes: Uint8Array, name: string): readonly Row[] {
  const rows: Row[] = [];
  for (let from = 0, line = 1; from < bytes.length; line++) {
    const end = bytes.indexOf(10, from),
      to = end < 0 ? bytes.length : end,
      part = bytes.subarray(from, to),
      place = `${name}, line ${line}`;
    if (!part.every(isSpace))
      try {
        rows.push([place, parseJson(part, place)]);
      } catch (cause) {
        const whole = rows.length === 0 ? objectIn(bytes, name) : undefined;
        if (whole === undefined) throw cause;
        return [[name, whole]];
      }
    from = to + 1;
  }
  return rows;
}

/** Returns what a file over several lines holds, undefined where it is no JSON. */
function objectIn(bytes: Uint8Array, name: string): unknown {
  try {
    return parseJson(bytes, name);
  } catch {
    return undefined;
  }
}

import type { AlignedText } from './aligned.ts';
import { SPACE } from './token-bytes.ts';
import type { WorkLimit } from './work-limit.ts';

/** The token for text outside the vocabulary, and how much of the text one stands for. */
export interface UnknownToken {
  readonly id: number;
  readonly covers: 'run' | 'character' | 'byte';
}

/**
 * Returns each token's position in the original text in UTF-16 code units, `[start, end)` of the characters that its
 * bytes come from. Tokens stand for the UTF-8 bytes of `source` in order, with U+2581 as a space if `spaces`; bytes
 * that no token stands for are skipped. A token of no written text (a dummy prefix) is empty.
 */
export function tokenOffsets(
  source: AlignedText,
  ids: readonly number[],
  bytesOf: (id: number) => Uint8Array,
  spaces: boolean,
  work: WorkLimit,
  unknown?: UnknownToken,
): [number, number][] {
  const { bytes, unit } = utf8(spaces ? source.text.replaceAll(SPACE, ' ') : source.text);
  const absent = new Set<number>();
  const offsets: [number, number][] = [];
  let at = 0;
  let open = -1;
  const cover = (from: number, to: number): [number, number] => {
    const first = unit[from] ?? 0;
    const last = to > from ? lastUnit(source.text, unit[to - 1] ?? 0) : -1;
    const start = source.start[first] ?? source.end.at(-1) ?? 0;
    return [start, last < 0 ? start : Math.max(start, source.end[last] ?? start)];
  };
  const close = (to: number): void => {
    if (open >= 0) offsets[open] = cover(at, to);
    open = -1;
  };
  for (const id of ids) {
    if (id === unknown?.id) {
      // the unknown token of a word after another's: where that ends is not known here, and is taken to be near
      const end = open < 0 ? at : Math.min(bytes.length, charEnd(unit, at));
      close(end);
      at = end;
      const next =
        unknown.covers === 'run' ? at : Math.min(bytes.length, unknown.covers === 'byte' ? at + 1 : charEnd(unit, at));
      if (unknown.covers === 'run') open = offsets.length;
      offsets.push(cover(at, next));
      at = next;
      continue;
    }
    const token = bytesOf(id);
    // Text that does not occur in the rest does not occur in a shorter rest either.
    const found = absent.has(id) ? -1 : find(bytes, token, at, work);
    if (found < 0) {
      absent.add(id);
      offsets.push(cover(at, at));
      continue;
    }
    close(found);
    at = found + token.length;
    offsets.push(cover(found, at));
  }
  close(bytes.length);
  return offsets;
}

/**
 * Returns the UTF-8 bytes of a well-formed text and, for each byte and the end, the code unit at
 * which its character starts.
 */
function utf8(text: string): { bytes: Uint8Array; unit: Uint32Array } {
  const bytes = new TextEncoder().encode(text);
  const unit = new Uint32Array(bytes.length + 1);
  let start = -1;
  let wide = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] as number;
    if ((byte & 0xc0) !== 0x80) {
      start += 1 + wide;
      wide = byte >= 0xf0 ? 1 : 0;
    }
    unit[i] = start;
  }
  unit[bytes.length] = text.length;
  return { bytes, unit };
}

/** Returns the last code unit of the character that starts at `unit`. */
function lastUnit(text: string, unit: number): number {
  return (text.codePointAt(unit) ?? 0) > 0xffff ? unit + 1 : unit;
}

/** Returns the first byte after the character at byte `at`. */
function charEnd(unit: Uint32Array, at: number): number {
  let next = at + 1;
  while (next < unit.length - 1 && unit[next] === unit[at]) next++;
  return next;
}

function find(bytes: Uint8Array, token: Uint8Array, from: number, work: WorkLimit): number {
  const first = token[0];
  if (first === undefined) return from;
  for (
    let at = bytes.indexOf(first, from);
    at >= 0 && at + token.length <= bytes.length;
    at = bytes.indexOf(first, at + 1)
  ) {
    let i = 1;
    while (i < token.length && bytes[at + i] === token[i]) i++;
    work.spend(i);
    if (i === token.length) return at;
  }
  work.spend((bytes.length - from) >> 4);
  return -1;
}

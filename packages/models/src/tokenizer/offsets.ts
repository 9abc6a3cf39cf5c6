/**
 * Where each token lies in the text, in UTF-16 code units: `[start, end)` of the characters that hold its bytes.
 * Tokens stand for the text's UTF-8 bytes in order; what no token stands for (a byte outside the vocabulary, trimmed space) is stepped over,
 * and a token without text of its own (one that a post-processor added) is empty.
 */
export function tokenOffsets(text: string, tokens: readonly Uint8Array[]): (readonly [number, number])[] {
  const { bytes, unit } = utf8(text);
  let at = 0;
  return tokens.map((token) => {
    let found = find(bytes, token, at);
    let length = token.length;
    if (token[0] === 32 && (found < 0 || (found > at && find(bytes, token.subarray(1), at) === at))) {
      found = find(bytes, token.subarray(1), at);
      length -= 1;
    }
    if (found < 0 || length === 0) return [unit[at] ?? 0, unit[at] ?? 0];
    at = found + length;
    return [unit[found] ?? 0, charEnd(unit, at)];
  });
}

/** UTF-8 bytes of the text and, for each byte and the end, the code unit at which its character starts. A lone surrogate is U+FFFD. */
function utf8(text: string): { bytes: Uint8Array; unit: Uint32Array } {
  const bytes = new TextEncoder().encode(text);
  const unit = new Uint32Array(bytes.length + 1);
  let at = 0;
  let start = 0;
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0;
    const length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    unit.fill(start, at, at + length);
    at += length;
    start += char.length;
  }
  unit[at] = start;
  return { bytes, unit };
}

/** The first code unit after the character that holds the byte before `at`. */
function charEnd(unit: Uint32Array, at: number): number {
  const last = unit[at - 1];
  let next = at;
  while (next < unit.length - 1 && unit[next] === last) next++;
  return unit[next] ?? 0;
}

function find(bytes: Uint8Array, token: Uint8Array, from: number): number {
  for (let at = from; at + token.length <= bytes.length; at++) {
    let i = 0;
    while (i < token.length && bytes[at + i] === token[i]) i++;
    if (i === token.length) return at;
  }
  return -1;
}

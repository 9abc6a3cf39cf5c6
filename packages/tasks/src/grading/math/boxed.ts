/** Boxes that are tried, from the last one: a hostile answer may have many that never close. */
const MOST = 20;

/**
 * Returns the contents of the last \boxed or \fbox that is closed: the text between its balanced braces, or without
 * braces the number, command or letter that follows, up to a $ that closes the formula; undefined if there is none.
 */
export function boxedText(text: string): string | undefined {
  const boxes = [...text.matchAll(/\\(?:boxed|fbox)(?![a-zA-Z])\s*/g)].slice(-MOST).reverse();
  for (const { index, 0: box } of boxes) {
    const inside = contentsAt(text, index + box.length);
    if (inside !== undefined) return inside;
  }
  return undefined;
}

function contentsAt(text: string, start: number): string | undefined {
  if (text[start] !== '{') {
    const rest = text.slice(start, start + 2000),
      [inside] = /^[^$\n]+(?=\$)/.exec(rest) ?? /^-?\d(?:[\d.,]*\d)?|^\\[a-zA-Z]+|^[a-zA-Z]/.exec(rest) ?? [];
    return inside?.trim();
  }
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === '{') depth++;
    else if (text[at] === '}' && --depth === 0) return text.slice(start + 1, at);
  }
  return undefined;
}

/**
 * Returns the contents of the last \boxed or \fbox: the text between its balanced braces, or without braces the number,
 * command or letter that follows, up to a $ that closes the formula; undefined if none is closed.
 */
export function boxedText(text: string): string | undefined {
  const last = [...text.matchAll(/\\(?:boxed|fbox)(?![a-zA-Z])\s*/g)].at(-1);
  if (!last) return undefined;
  const start = last.index + last[0].length;
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

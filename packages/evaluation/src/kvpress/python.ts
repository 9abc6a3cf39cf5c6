/** Formats a string as Python prints it: in single quotes, or in double ones if it contains a single quote. */
export function pythonString(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'",
    inside = text
      .replaceAll('\\', '\\\\')
      .replaceAll(quote, `\\${quote}`)
      .replaceAll('\n', '\\n')
      .replaceAll('\r', '\\r')
      .replaceAll('\t', '\\t')
      .replace(/[\x00-\x1f\x7f]/g, (code) => `\\x${code.charCodeAt(0).toString(16).padStart(2, '0')}`);
  return quote + inside + quote;
}

/** Formats a number as Python prints a float. */
export const pythonFloat = (x: number): string => (Number.isInteger(x) ? x.toFixed(1) : String(x));

/** Formats a list of strings as numpy prints it, separated by spaces alone. */
export const numpyStrings = (texts: readonly string[]): string => `[${texts.map(pythonString).join(' ')}]`;

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', '\n': '' };

/** Parses a list of strings as Python or numpy prints it; undefined for anything else. */
export function stringsOf(printed: string): readonly string[] | undefined {
  const list = printed.trim(),
    strings: string[] = [],
    next = /[\s,]*(?:'((?:[^'\\]|\\[^])*)'|"((?:[^"\\]|\\[^])*)")/y;
  if (!list.startsWith('[') || !list.endsWith(']')) return undefined;
  next.lastIndex = 1;
  let end = 1;
  for (let found = next.exec(list); found; found = next.exec(list)) {
    strings.push(unescaped(found[1] ?? found[2]));
    end = next.lastIndex;
  }
  return /^[\s,]*\]$/.test(list.slice(end)) ? strings : undefined;
}

const unescaped = (inside: string): string =>
  inside.replace(/\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|([^]))/gi, (_, byte: string, unit: string, other: string) =>
    other === undefined ? String.fromCharCode(parseInt(byte ?? unit, 16)) : (ESCAPES[other] ?? other),
  );

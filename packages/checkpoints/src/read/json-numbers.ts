/** Texts of numbers that JavaScript writes otherwise, such as `1.0`, or cannot hold, by what holds them and their key. */
const sources = new WeakMap<object, Map<string, string>>();

/** Strings and numbers of a JSON text: what looks like a number within a string is none. */
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;

/** Parses JSON, and keeps how its numbers were written. @throws SyntaxError as `JSON.parse` does */
export function parseExactJson(text: string): unknown {
  const value = JSON.parse(text) as unknown;
  keepNumbers(value, text);
  return value;
}

/** Keeps how the numbers of a value were written in the JSON text that it was parsed from. */
export function keepNumbers(value: unknown, text: string): void {
  if (!hasOdd(text)) return;
  const asTexts = text.replace(TOKENS, (token) => (token.startsWith('"') ? token : `"${token}"`)),
    left: [unknown, unknown][] = [[value, JSON.parse(asTexts)]];
  for (let next = left.pop(); next; next = left.pop()) {
    const [of, texts] = next;
    if (typeof of !== 'object' || of === null) continue;
    for (const [key, inner] of Object.entries(of)) {
      const source = (texts as Record<string, unknown>)[key];
      if (typeof inner !== 'number') left.push([inner, source]);
      else if (String(inner) !== source) {
        if (!sources.has(of)) sources.set(of, new Map());
        sources.get(of)?.set(key, source as string);
      }
    }
  }
}

/** Whether a JSON text has a number that JavaScript would write otherwise; most have none. */
function hasOdd(text: string): boolean {
  for (const [token] of text.matchAll(TOKENS))
    if (!token.startsWith('"') && String(Number(token)) !== token) return true;
  return false;
}

/** Returns how a number within an object or a list was written, where JavaScript would write it otherwise. */
export function numberSource(of: object, key: string): string | undefined {
  const source = sources.get(of)?.get(key);
  return source !== undefined && Number(source) === (of as Record<string, unknown>)[key] ? source : undefined;
}

/** Writes plain data as JSON as `JSON.stringify` does, but its numbers as they were written. */
export function writeExactJson(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const written = (key: string, inner: unknown): string => numberSource(value, key) ?? writeExactJson(inner);
  if (Array.isArray(value)) return `[${value.map((inner, i) => written(String(i), inner)).join(',')}]`;
  const fields = Object.entries(value).filter(([, inner]) => inner !== undefined);
  return `{${fields.map(([key, inner]) => `${JSON.stringify(key)}:${written(key, inner)}`).join(',')}}`;
}

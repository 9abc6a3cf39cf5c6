import type { Incoming, Reading, Taking } from './incoming.ts';

/** Reads one JSON value, and returns its text as it was written; undefined if it is none. */
export function* jsonText(input: Incoming): Reading<string | undefined> {
  const text = yield* input.take(endOfValue());
  return valueOfJson(text) === undefined ? undefined : text;
}

/** Reads a JSON object, and returns its fields as they were written; undefined if it is none. */
export function* jsonFields(input: Incoming): Reading<ReadonlyMap<string, string> | undefined> {
  const fields = new Map<string, string>();
  if (!(yield* input.literal('{'))) return undefined;
  yield* input.space();
  if ((yield* input.peek()) === '}') return (yield* input.literal('}')) ? fields : undefined;
  for (;;) {
    yield* input.space();
    const name = stringOf(yield* jsonText(input));
    yield* input.space();
    if (name === undefined || !(yield* input.literal(':'))) return undefined;
    yield* input.space();
    const value = yield* jsonText(input);
    if (value === undefined) return undefined;
    fields.set(name, value);
    yield* input.space();
    if ((yield* input.peek()) === '}') return (yield* input.literal('}')) ? fields : undefined;
    if (!(yield* input.literal(','))) return undefined;
  }
}

/** Returns the string that a JSON text is, or undefined for anything else. */
export function stringOf(text: string | undefined): string | undefined {
  const value = text === undefined ? undefined : valueOfJson(text);
  return typeof value === 'string' ? value : undefined;
}

/** Whether a text is a JSON object. */
export const isObject = (text: string): boolean => /^\s*\{/.test(text) && valueOfJson(text) !== undefined;

/** Returns the value of a JSON text, or undefined for other text. */
export function valueOfJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Finds the end of a JSON value by its strings and brackets; whether it is one is for `JSON.parse` to say. */
function endOfValue(): (char: string) => Taking {
  let depth = 0,
    quoted = false,
    escaped = false;
  const closed = (): Taking => (depth === 0 ? 'last' : 'take');
  return (char) => {
    if (quoted) {
      if (escaped || char === '\\') escaped = !escaped;
      else if (char === '"') {
        quoted = false;
        return closed();
      }
      return 'take';
    }
    if (char === '"') quoted = true;
    else if (char === '{' || char === '[') depth++;
    else if (char === '}' || char === ']') {
      if (depth === 0) return 'stop';
      depth--;
      return closed();
    } else if (depth === 0 && !/[-+.\w]/.test(char)) return 'stop';
    return 'take';
  };
}

import { KvError } from '@kv/core';
import { show } from './fields.ts';

/**
 * Parses JSON of an untrusted file.
 * @param where name of the file, for errors
 * @param depth the most levels of lists and objects. @defaultValue 64
 * @throws KvError for invalid UTF-8, for text that is not JSON, nests more than `depth` lists and objects, or repeats a
 * name in one object
 */
export function parseJson(bytes: Uint8Array, where: string, depth = 64): unknown {
  const text = decoded(bytes, where);
  scan(text, where, depth);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new KvError(where, `expected JSON, got ${notJson(cause, text)}`);
  }
}

/**
 * Describes why `JSON.parse` refused a text, and where if its message says so; that message quotes more of the text.
 *
 * @param text of several lines, to name the line
 */
export function notJson(cause: unknown, text = ''): string {
  const { message } = cause as Error,
    [, place] = /at position (\d+)/.exec(message) ?? [],
    [, token] = /^Unexpected token '(.)',/su.exec(message) ?? [];
  if (place !== undefined) return `an invalid text, at ${placeText(Number(place), text)}`;
  if (token !== undefined) return `an invalid text, at ${JSON.stringify(token.replace(/\p{Cc}/u, ' '))}`;
  return message.includes('end of JSON') ? 'text that ends too early' : 'an invalid text';
}

/** Names a character, counted from 1, and in a text of several lines its line. */
function placeText(at: number, text: string): string {
  if (!text.trimEnd().includes('\n')) return `character ${at + 1}`;
  const before = text.slice(0, at),
    start = before.lastIndexOf('\n') + 1;
  return `character ${at - start + 1} of line ${before.split('\n').length}`;
}

function decoded(bytes: Uint8Array, where: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new KvError(where, `expected JSON in UTF-8, got ${show(new TextDecoder().decode(bytes.subarray(0, 40)))}`);
  }
}

/** Checks what JSON.parse accepts: it keeps the last of two equal names, and builds any nesting. */
function scan(text: string, where: string, depth: number): void {
  const open: (Set<string> | undefined)[] = [];
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (c === '"') {
      const end = stringEnd(text, i);
      const names = open.at(-1);
      if (names !== undefined && isName(text, end)) {
        const name = text.slice(i, end);
        const plain = name.includes('\\') ? unescaped(name) : name;
        if (names.has(plain))
          throw new KvError(where, `expected each name once in an object, got ${show(name.slice(1, -1))} twice`);
        names.add(plain);
      }
      i = end - 1;
    } else if (c === '{' || c === '[') {
      if (open.length === depth)
        throw new KvError(where, `expected at most ${depth} levels of lists and objects, got more`);
      open.push(c === '{' ? new Set() : undefined);
    } else if (c === '}' || c === ']') open.pop();
  }
}

/** Returns the index after the closing quote of the string that opens at `start`. */
function stringEnd(text: string, start: number): number {
  let i = start + 1;
  for (; i < text.length && text[i] !== '"'; i++) if (text[i] === '\\') i++;
  return i + 1;
}

function isName(text: string, after: number): boolean {
  let i = after;
  while (text[i] === ' ' || text[i] === '\n' || text[i] === '\r' || text[i] === '\t') i++;
  return text[i] === ':';
}

/** Returns a quoted name with its escapes resolved; an invalid one is left for the parser to refuse. */
function unescaped(name: string): string {
  try {
    return JSON.stringify(JSON.parse(name));
  } catch {
    return name;
  }
}

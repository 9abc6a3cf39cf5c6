import { KvError } from '@kv/core';
import { show } from '../read/fields.ts';
import type { Cursor } from './gguf-cursor.ts';

/** A value of a GGUF file's metadata. 64-bit integers must be exact as numbers. */
export type GgufValue = number | boolean | string | readonly GgufValue[];

/** Values by name. */
export type GgufMetadata = ReadonlyMap<string, GgufValue>;

/** One kind of value: the fewest bytes it takes, and its reader. */
interface Kind {
  readonly bytes: number;
  readonly read: (cursor: Cursor, what: string, budget: Budget) => GgufValue;
}

/** What a file may still make the reader allocate: list elements, and nesting levels of lists. */
interface Budget {
  elements: number;
  depth: number;
}

/**
 * Maximum elements of all lists together; the largest vocabularies have 1.2 million tokens, scores, types and merges.
 */
const maxElements = 2 ** 24;
const maxDepth = 4;

const number = (bytes: number, get: (view: DataView, at: number) => number): Kind => ({
  bytes,
  read: ({ view, take }, what) => get(view, take(bytes, what)),
});

const texts: Kind = { bytes: 8, read: (cursor, what) => cursor.text(what) };

/** Kinds, indexed by the number that the file gives. */
const kinds: readonly Kind[] = [
  number(1, (view, at) => view.getUint8(at)),
  number(1, (view, at) => view.getInt8(at)),
  number(2, (view, at) => view.getUint16(at, true)),
  number(2, (view, at) => view.getInt16(at, true)),
  number(4, (view, at) => view.getUint32(at, true)),
  number(4, (view, at) => view.getInt32(at, true)),
  number(4, (view, at) => view.getFloat32(at, true)),
  { bytes: 1, read: bool },
  texts,
  { bytes: 12, read: list },
  { bytes: 8, read: (cursor, what) => cursor.u64(what) },
  { bytes: 8, read: signed },
  number(8, (view, at) => view.getFloat64(at, true)),
];

/**
 * Reads the `count` names and values at the cursor.
 * @throws KvError for a duplicate name, an unknown kind, or anything that does not fit the file
 */
export function readMetadata(cursor: Cursor, count: number): GgufMetadata {
  const metadata = new Map<string, GgufValue>();
  const budget: Budget = { elements: maxElements, depth: maxDepth };
  for (let i = 0; i < count; i++) {
    const name = cursor.text('a metadata name');
    if (metadata.has(name))
      throw new KvError(cursor.where, `expected each metadata name once, got ${show(name)} twice`);
    const what = `metadata ${show(name)}`;
    metadata.set(name, kindAt(cursor, what).read(cursor, what, budget));
  }
  return metadata;
}

function kindAt(cursor: Cursor, what: string): Kind {
  const id = cursor.u32(what);
  const kind = kinds[id];
  if (kind === undefined)
    throw new KvError(cursor.where, `${what} must be of a type from 0 to ${kinds.length - 1}, got ${id}`);
  return kind;
}

function bool(cursor: Cursor, what: string): boolean {
  const byte = cursor.view.getUint8(cursor.take(1, what));
  if (byte > 1) throw new KvError(cursor.where, `${what} must be a byte 0 or 1, got ${byte}`);
  return byte === 1;
}

function signed(cursor: Cursor, what: string): number {
  const value = cursor.view.getBigInt64(cursor.take(8, what), true);
  if (!Number.isSafeInteger(Number(value)))
    throw new KvError(cursor.where, `${what} must be between -2^53 and 2^53, got ${value}`);
  return Number(value);
}

function list(cursor: Cursor, what: string, budget: Budget): readonly GgufValue[] {
  if (budget.depth === 0) throw new KvError(cursor.where, `${what} must nest at most ${maxDepth} lists, got more`);
  const kind = kindAt(cursor, what);
  const count = cursor.u64(what);
  if (count * kind.bytes > cursor.left())
    throw new KvError(
      cursor.where,
      `${what} must fit the ${cursor.left()} bytes that follow, got ${count} elements: the file is cut`,
    );
  if (count > budget.elements)
    throw new KvError(
      cursor.where,
      `expected at most ${maxElements} elements in all lists of the metadata, got more with ${what}`,
    );
  budget.elements -= count;
  if (kind === texts) return cursor.texts(count, what);
  budget.depth--;
  const values: GgufValue[] = [];
  for (let i = 0; i < count; i++) values.push(kind.read(cursor, what, budget));
  budget.depth++;
  return values;
}

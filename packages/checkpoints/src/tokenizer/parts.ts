import { KvError } from '@kv/core';
import { object, show, type JsonFields } from '../read/fields.ts';

/**
 * Returns a component of a tokenizer.json as a list: a `Sequence` as its parts in order, null as none.
 * @throws KvError for anything else
 */
export function parts(component: unknown, list: string, where: string): readonly JsonFields[] {
  if (component == null) return [];
  const fields = object(component, where, list);
  if (fields.type !== 'Sequence') return [fields];
  const found = fields[list];
  if (!Array.isArray(found)) throw new KvError(where, `${list} must be a list, got ${show(found)}`);
  const all = found.flatMap((part: unknown) => parts(part, list, where));
  if (all.length <= MOST) return all;
  throw new KvError(where, `expected at most ${MOST} ${list}, got ${all.length}`);
}

/** Maximum number of parts: each scans the whole text, and known tokenizers have at most eight. */
const MOST = 64;

/** Returns the literal string that a `Replace` or `Split` matches, if it matches one. */
export function literal(part: JsonFields): string | undefined {
  const found = (part.pattern as JsonFields | null | undefined)?.String;
  return typeof found === 'string' && found !== '' ? found : undefined;
}

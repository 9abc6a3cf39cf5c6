import { KvError } from '@kv/core';
import { object, show, type JsonFields } from '../read/fields.ts';

/**
 * A component of a tokenizer.json and, for a `Sequence`, its parts in order; none for null. @throws KvError for what is
 * neither.
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

/** Parts of a component: each goes over the whole text, and known tokenizers have at most eight. */
const MOST = 64;

/** The string that a `Replace` or `Split` looks for, if it looks for one. */
export function literal(part: JsonFields): string | undefined {
  const found = (part.pattern as JsonFields | null | undefined)?.String;
  return typeof found === 'string' && found !== '' ? found : undefined;
}

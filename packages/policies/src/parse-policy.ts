import { KvError } from '@kv/core';
import type { Policy } from '@kv/core';
import { policies } from './catalogue.ts';
import type { OptionValue } from './catalogue.ts';

const SHAPE = /^\s*([\w-]+)\s*(?:\(([^()]*)\))?\s*$/;

/**
 * A policy of this package from its name and options, as in `snapkv(window=16,kernel=5)`.
 *
 * @throws KvError naming the policies, or the policy's options, that were expected.
 */
export function parsePolicy(text: string): Policy {
  const [, name = '', list = ''] = SHAPE.exec(text) ?? [];
  const entry = Object.hasOwn(policies, name) ? policies[name] : undefined;
  if (!entry) throw new KvError('policy', `expected NAME or NAME(option=value,...) with one of ${Object.keys(policies).join(', ')}, got '${text}'`);
  const given: Record<string, OptionValue> = {};
  for (const part of list.split(',').filter((p) => p.trim() !== '')) {
    const [key = '', value = '', more] = part.split('=').map((x) => x.trim());
    const like = Object.hasOwn(entry.options, key) ? entry.options[key] : undefined;
    if (like === undefined || value === '' || more !== undefined) throw new KvError(name, `expected options ${said(entry.options)}, got '${part.trim()}'`);
    given[key] = read(name, key, value, like);
  }
  return entry.make(given);
}

const said = (options: Readonly<Record<string, OptionValue>>): string => Object.entries(options).map(([k, v]) => `${k}=${v}`).join(', ') || '(none)';

/** The value in the type of its default. */
function read(at: string, key: string, value: string, like: OptionValue): OptionValue {
  if (typeof like === 'string') return value;
  if (typeof like === 'boolean' ? value === 'true' || value === 'false' : Number.isFinite(Number(value))) return typeof like === 'boolean' ? value === 'true' : Number(value);
  throw new KvError(at, `${key} must be ${typeof like === 'boolean' ? 'true or false' : 'a number'}, got '${value}'`);
}

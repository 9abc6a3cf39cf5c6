import { createHash, timingSafeEqual } from 'node:crypto';
import { KvError } from '@kv/core';

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/**
 * Parses a key file: one key per line, skipping empty lines and those that begin with #. @throws KvError where none is
 * left
 */
export function readKeys(text: string, file: string): readonly string[] {
  const keys = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
  if (keys.length === 0) throw new KvError(file, 'expected at least one key, one a line, got none');
  return keys;
}

/** The headers that a key may come in. */
type KeyHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Returns a constant-time check of whether `authorization`, or else `x-api-key`, holds one of the keys. */
export function keyCheck(keys: readonly string[]): (headers: KeyHeaders) => boolean {
  const known = keys.map(digest);
  return ({ authorization, 'x-api-key': key = '' }) => {
    const sent = digest(
      authorization === undefined ? String(key) : (/^Bearer +(.*)$/i.exec(String(authorization))?.[1] ?? ''),
    );
    return known.reduce((found, key) => timingSafeEqual(key, sent) || found, false);
  };
}

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

/** Returns a constant-time check of whether an `Authorization` header holds one of the keys. */
export function keyCheck(keys: readonly string[]): (header: string | undefined) => boolean {
  const known = keys.map(digest);
  return (header = '') => {
    const sent = digest(/^Bearer +(.*)$/i.exec(header)?.[1] ?? '');
    return known.reduce((found, key) => timingSafeEqual(key, sent) || found, false);
  };
}

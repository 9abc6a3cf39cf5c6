import { createHash, timingSafeEqual } from 'node:crypto';
import { KvError } from '@kv/core';

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/** The keys of a file: one a line, empty lines and those that begin with # left out. @throws KvError where none is left */
export function readKeys(text: string, file: string): readonly string[] {
  const keys = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
  if (keys.length === 0) throw new KvError(file, 'expected at least one key, one a line, got none');
  return keys;
}

/** Whether an `Authorization` header holds one of the keys; takes as long for any header of a length. */
export function keyCheck(keys: readonly string[]): (header: string | undefined) => boolean {
  const known = keys.map(digest);
  return (header = '') => {
    const sent = digest(/^Bearer +(.*)$/i.exec(header)?.[1] ?? '');
    return known.reduce((found, key) => timingSafeEqual(key, sent) || found, false);
  };
}

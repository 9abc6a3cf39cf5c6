import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A path in the shared fixtures. */
export const shared = (path: string): string => join(`${process.env.KV_SHARED}`, path);

export const sharedJson = <T>(path: string): T => JSON.parse(readFileSync(shared(path), 'utf8')) as T;

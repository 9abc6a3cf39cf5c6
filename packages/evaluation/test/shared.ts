import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The repository of which this is a part. */
export const repository: string = join(dirname(fileURLToPath(import.meta.url)), '../../..');

/** A text of the shared reference material. */
export const sharedText = (path: string): string => readFileSync(`${process.env.KV_SHARED}/${path}`, 'utf8');

import { readFileSync } from 'node:fs';

/** A text of the shared reference material. */
export const sharedText = (path: string): string => readFileSync(`${process.env.KV_SHARED}/${path}`, 'utf8');

import { readFileSync } from 'node:fs';

/** A text among the data of these tests. */
export const sharedText = (path: string): string => readFileSync(new URL(`data/${path}`, import.meta.url), 'utf8');

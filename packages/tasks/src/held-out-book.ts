import { readFile } from 'node:fs/promises';

/** The opening of The Adventures of Tom Sawyer (public domain), which the embedded model has never seen. */
export const heldOutBook = (): Promise<string> => readFile(new URL('../data/tom-sawyer.txt', import.meta.url), 'utf8');

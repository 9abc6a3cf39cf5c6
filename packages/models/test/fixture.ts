import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Logits of transformers at some positions of a sequence. */
export interface Wanted {
  readonly ids: number[];
  readonly logits: Readonly<Record<string, number[]>>;
}

/** A file of a tiny checkpoint made by tools/reference-models. */
export const fixture = (path: string): string => fileURLToPath(new URL(`fixtures/${path}`, import.meta.url));

export const fixtureJson = <T>(path: string): T => JSON.parse(readFileSync(fixture(path), 'utf8')) as T;

/** What transformers gives for a checkpoint, and for what of it a GGUF file can say. */
export function wanted(name: string, file: string): readonly Wanted[] {
  const { sequences, gguf } = fixtureJson<{ sequences: Wanted[]; gguf?: Wanted[] }>(`${name}/golden.json`);
  return file.endsWith('.gguf') ? (gguf ?? sequences) : sequences;
}

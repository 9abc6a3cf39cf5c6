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

/** The tokens that transformers gives after others, each the likeliest. */
export interface Greedy {
  readonly after: number[];
  readonly tokens: number[];
}

/** Likewise, what follows some tokens. */
export function greedy(name: string, file: string): Greedy {
  const golden = fixtureJson<{ greedy: Greedy; ggufGreedy?: Greedy }>(`${name}/golden.json`);
  return file.endsWith('.gguf') ? (golden.ggufGreedy ?? golden.greedy) : golden.greedy;
}

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Logits of transformers at some positions of a sequence. */
export interface GoldenOutput {
  readonly ids: number[];
  readonly logits: Readonly<Record<string, number[]>>;
}

/** A file of a tiny checkpoint made by tools/reference-models. */
export const fixture = (path: string): string => fileURLToPath(new URL(`../fixtures/${path}`, import.meta.url));

/** The tiny checkpoints, one of each family or of what it may say. */
export const families: readonly string[] = readdirSync(fixture('.')).filter((name) =>
  existsSync(fixture(`${name}/config.json`)),
);

/** Each with its formats: the folder, and `model.gguf` where there is one. */
export const familyFiles: readonly (readonly [name: string, file: string])[] = families.flatMap((name) =>
  ['.', 'model.gguf'].filter((file) => existsSync(fixture(`${name}/${file}`))).map((file) => [name, file] as const),
);

export const fixtureJson = <T>(path: string): T => JSON.parse(readFileSync(fixture(path), 'utf8')) as T;

/** What transformers gives for a checkpoint, and for what of it a GGUF file can say. */
export function goldenOutputs(name: string, file: string): readonly GoldenOutput[] {
  const { sequences, gguf } = fixtureJson<{ sequences: GoldenOutput[]; gguf?: GoldenOutput[] }>(`${name}/golden.json`);
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

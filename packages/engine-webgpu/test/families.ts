import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fixture } from './sequences.ts';

/** Logits of transformers at some positions of a sequence. */
interface Wanted {
  readonly ids: number[];
  readonly logits: Readonly<Record<string, number[]>>;
}

/** The tiny checkpoints of tools/reference-models: folders, and `model.gguf` where there is one. */
export const familyFiles: readonly (readonly [name: string, file: string])[] = readdirSync(fixture('.'))
  .filter((name) => existsSync(fixture(`${name}/config.json`)))
  .flatMap((name) =>
    ['.', 'model.gguf'].filter((file) => existsSync(fixture(`${name}/${file}`))).map((file) => [name, file] as const),
  );

/** What transformers gives for a checkpoint, and for what of it a GGUF file can say. */
export function wanted(name: string, file: string): readonly Wanted[] {
  const { sequences, gguf } = JSON.parse(readFileSync(fixture(`${name}/golden.json`), 'utf8')) as {
    sequences: Wanted[];
    gguf?: Wanted[];
  };
  return file.endsWith('.gguf') ? (gguf ?? sequences) : sequences;
}

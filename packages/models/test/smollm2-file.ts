import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * Where `node tools/smollm2.mjs` puts SmolLM2-135M-Instruct.Q4_1.gguf, or `KV_SMOLLM2_GGUF`; undefined, with a line
 * that says so, where it is not.
 */
export function smollm2File(what: string): string | undefined {
  const named = process.env.KV_SMOLLM2_GGUF ?? '';
  const path = named || fileURLToPath(new URL('../../../.kv/models/SmolLM2-135M-Instruct.Q4_1.gguf', import.meta.url));
  if (existsSync(path)) return path;
  if (named) throw new Error(`expected SmolLM2-135M-Instruct.Q4_1.gguf at KV_SMOLLM2_GGUF, got nothing at ${named}`);
  console.info(
    `${what} left out: SmolLM2-135M-Instruct.Q4_1.gguf is not here ('node tools/smollm2.mjs' fetches it, 98 MB)`,
  );
  return undefined;
}

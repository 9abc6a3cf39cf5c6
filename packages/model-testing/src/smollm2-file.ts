import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * Returns the path where `node tools/TOOL.mjs` puts a real checkpoint, or that `KV_TOOL_GGUF` names; undefined, after
 * printing a line, if the file is not there.
 */
function realFile(tool: string, file: string, megabytes: number, what: string): string | undefined {
  const variable = `KV_${tool.toUpperCase()}_GGUF`,
    named = process.env[variable] ?? '';
  const path = named || fileURLToPath(new URL(`../../../.kv/models/${file}`, import.meta.url));
  if (existsSync(path)) return path;
  if (named) throw new Error(`expected ${file} at ${variable}, got nothing at ${named}`);
  console.info(`${what} left out: ${file} is not here ('node tools/${tool}.mjs' fetches it, ${megabytes} MB)`);
  return undefined;
}

/** Path of SmolLM2-135M-Instruct, Q4_1. */
export const smollm2File = (what: string): string | undefined =>
  realFile('smollm2', 'SmolLM2-135M-Instruct.Q4_1.gguf', 98, what);

/** Path of Gemma 3 270M, Q4_K_M. */
export const gemma3File = (what: string): string | undefined =>
  realFile('gemma3', 'gemma-3-270m.Q4_K_M.gguf', 253, what);

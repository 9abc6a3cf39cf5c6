import { existsSync } from 'node:fs';
import { totalmem } from 'node:os';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { KvError, text } from '@kv/core';
import type { Option } from '@kv/core';
import { cachedModels, fetchModel, parseModelName } from '@kv/hub';
import { startDownload } from './download-progress.ts';
import type { Terminal } from './terminal.ts';

/** Help of `--model`. */
export const MODEL_HELP =
  "'embedded', a folder, a .gguf file, or a repository of the Hugging Face hub: org/name, org/name:Q4_K_M, org/name/file.gguf";

/** The option `--model`. */
export const modelOption: Option<string> = text('embedded', 'a name', `${MODEL_HELP} (-hf org/name does the same)`);

/** Share of this machine's memory that the weights of a model chosen for the user may take. */
const MEMORY_SHARE = 1 / 4;

/**
 * Returns the largest chat model in the Hugging Face cache whose weights take at most a quarter of the memory, else
 * `CHAT_MODEL`. A chat model is one that its name says to be: Instruct, Chat or it.
 */
export async function chatModel(env: typeof process.env = process.env): Promise<string> {
  const { models } = await cachedModels(env),
    fit = models.filter(
      ({ name, bytes }) => /\b(?:instruct|chat|it)\b/i.test(name) && bytes <= MEMORY_SHARE * totalmem(),
    );
  return fit.sort((a, b) => b.bytes - a.bytes)[0]?.name ?? CHAT_MODEL;
}

/** A small chat model to suggest. */
export const CHAT_MODEL = 'HuggingFaceTB/SmolLM2-135M-Instruct';
/** The same with the size of its download, for sentences. */
export const SUGGESTED = `${CHAT_MODEL} (269 MB)`;

/**
 * Returns the argument of `loadModel` for a name; downloads a repository of the hub into the Hugging Face cache unless
 * it is there. @throws KvError in one sentence
 */
export async function resolveModel(name: string, { stderr, signal, cwd }: Terminal): Promise<string> {
  const { kind } = parseModelName(name, cwd);
  if ((kind === 'folder' || kind === 'gguf') && !existsSync(resolve(cwd, name)))
    throw new KvError('model', `expected ${MODEL_HELP}; there is no ${JSON.stringify(name)}`);
  if (kind !== 'repo') return name;
  const download = startDownload(stderr, name);
  return fetchModel(name, { signal, onPlan: download.plan, onProgress: download.step, onWait: download.wait })
    .catch((error: unknown) => {
      throw withoutHub(error);
    })
    .finally(() => download.stop());
}

/** Adds to an error of an unreachable hub what can be named without it. */
const withoutHub = (error: unknown): unknown =>
  KvError.is(error) && (/^https?:/.test(error.at) || error.message.includes('no network may be used'))
    ? new KvError(
        error.at,
        `${error.message.slice(error.at.length + 2)}; a model on this machine is named by its path, such as ./model.gguf`,
      )
    : error;

/** Returns the file or folder of a result of `resolveModel`. */
export function checkpointPath(model: string): string {
  if (model.startsWith('file:')) return fileURLToPath(model);
  if (model !== 'embedded') return model;
  return (
    process.env.KV_EMBEDDED_DIR || fileURLToPath(new URL('.', import.meta.resolve('@kv/model-embedded/config.json')))
  );
}

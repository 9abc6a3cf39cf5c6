import { KvError } from '@kv/core';
import { builtin } from './builtin.ts';
import { createTokenizer, type Tokenizer } from '../tokenizer.ts';
import { parseConfig, type LlamaConfig } from './config.ts';
import { fileSource, readJson, urlSource, type Source } from './source.ts';
import { loadWeights, type Weights } from './weights.ts';

/** A checkpoint's three files, read and checked. */
export interface Checkpoint {
  readonly config: LlamaConfig;
  readonly weights: Weights;
  readonly tokenizer: Tokenizer;
}

/**
 * Reads config.json, tokenizer.json and model.safetensors of a folder (a path or a `file:` URL in Node, an `http(s):` URL anywhere).
 * @throws KvError naming the file and what is wrong with it.
 */
export async function loadFolder(folder: string): Promise<Checkpoint> {
  const config = await use(await open(folder, 'config.json'), async (source) => parseConfig(await readJson(source), source.name));
  const tokenizer = await use(await open(folder, 'tokenizer.json'), async (source) => createTokenizer(await readJson(source), source.name));
  if (tokenizer.size > config.vocab)
    throw new KvError(folder, `tokenizer.json must have at most vocab_size (${config.vocab}) ids, got ${tokenizer.size}`);
  const weights = await use(await open(folder, 'model.safetensors'), (source) => loadWeights(source, config));
  return { config, weights, tokenizer };
}

async function use<T>(source: Source, read: (source: Source) => Promise<T>): Promise<T> {
  try {
    return await read(source);
  } finally {
    await source.close();
  }
}

async function open(folder: string, file: string): Promise<Source> {
  if (/^https?:/.test(folder)) return urlSource(new URL(file, folder.endsWith('/') ? folder : `${folder}/`));
  const path = folder.startsWith('file:') ? builtin('node:url').fileURLToPath(folder) : folder;
  const found = await builtin('node:fs/promises').stat(path).catch(() => undefined);
  if (found?.isDirectory() !== true)
    throw new KvError('model', `expected 'embedded' or a folder with config.json, model.safetensors and tokenizer.json, got ${JSON.stringify(folder)}`);
  return fileSource(builtin('node:path').join(path, file));
}

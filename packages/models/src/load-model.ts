import { KvError } from '@kv/core';
import { builtin } from './checkpoint/builtin.ts';
import type { LlamaConfig } from './checkpoint/config.ts';
import { loadFolder } from './checkpoint/load.ts';
import { createDecoder, type Decoder } from './llama/decoder.ts';
import type { LinearFactory } from './linear/linear.ts';
import { defaultLinear } from './linear/default.ts';
import type { Tokenizer } from './tokenizer.ts';

/** A loaded language model. */
export interface Model {
  readonly name: string;
  readonly config: LlamaConfig;
  readonly tokenizer: Tokenizer;
  readonly decoder: Decoder;
}

export interface LoadOptions {
  /** What multiplies. @defaultValue `defaultLinear()` */
  readonly linear?: LinearFactory;
}

/**
 * Loads `'embedded'`, or the folder or base URL of a Hugging Face checkpoint: config.json, model.safetensors, tokenizer.json.
 * @throws KvError in one sentence for a name that is neither, and for whatever the files get wrong.
 */
export async function loadModel(name: string, { linear }: LoadOptions = {}): Promise<Model> {
  const { config, weights, tokenizer } = await loadFolder(name === 'embedded' ? embeddedFolder() : name);
  return { name, config, tokenizer, decoder: createDecoder(config, weights, linear ?? await defaultLinear()) };
}

/** The folder of `@kv/model-embedded`, unless `KV_EMBEDDED_DIR` names another. */
function embeddedFolder(): string {
  const own = typeof process === 'object' ? process.env.KV_EMBEDDED_DIR : undefined;
  if (own !== undefined && own !== '') return own;
  const require = builtin('node:module').createRequire(import.meta.url);
  try {
    return builtin('node:path').dirname(require.resolve('@kv/model-embedded/config.json'));
  } catch {
    throw new KvError('embedded', 'expected the package @kv/model-embedded with its config.json beside @kv/models, got neither it nor KV_EMBEDDED_DIR');
  }
}

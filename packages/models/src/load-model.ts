import { KvError } from '@kv/core';
import { builtin } from './checkpoint/builtin.ts';
import type { ChatTemplate } from './chat-template.ts';
import type { ModelConfig } from './checkpoint/config.ts';
import { openCheckpoint, type OpenOptions } from './checkpoint/load.ts';
import { createDecoder, type Decoder } from './decoder/decoder.ts';
import { linearEngine } from './decoder/linear-engine.ts';
import type { Engine } from './decoder/program.ts';
import { fingerprinted } from './fingerprint.ts';
import { defaultLinear } from './linear/default.ts';
import type { LinearFactory } from './linear/linear.ts';
import type { Tokenizer } from './tokenizer.ts';
import { turnEnd } from './turn-end.ts';

/** A loaded language model. */
export interface Model {
  readonly name: string;
  readonly config: ModelConfig;
  readonly tokenizer: Tokenizer;
  readonly decoder: Decoder;
  /** The checkpoint's chat template, if it has one. @throws KvError if it does not parse */
  readonly chatTemplate?: () => ChatTemplate | undefined;
  /** Names the checkpoint by its configuration and a sample of its weights: SHA-256 in hex. */
  readonly fingerprint: string;
}

export interface LoadOptions extends OpenOptions {
  /** What runs the decoder's programs. @defaultValue `linearEngine(linear)` */
  readonly engine?: Engine;
  /** What multiplies, without an `engine`. @defaultValue `defaultLinear()` */
  readonly linear?: LinearFactory;
}

/**
 * Loads `'embedded'`, a path or URL that ends in `.gguf`, or the folder or base URL of a Hugging Face checkpoint:
 * config.json, model.safetensors (or its
 * shards), tokenizer.json. Tensors are read one at a time: beside the weights as the engine holds them there is never
 * more than a layer.
 * The end of a turn in its chat template is one of its `eosIds`.
 * @throws KvError in one sentence for a name that is neither, and for whatever the files get wrong.
 */
export async function loadModel(name: string, { engine, linear, ...options }: LoadOptions = {}): Promise<Model> {
  const {
    config: stored,
    weights,
    tokenizer,
    chatTemplate,
    close,
  } = await openCheckpoint(name === 'embedded' ? embeddedFolder() : name, options);
  try {
    const end = turnEnd(chatTemplate, tokenizer),
      config = { ...stored, eosIds: [...new Set([...stored.eosIds, ...(end === undefined ? [] : [end])])] };
    const print = fingerprinted(weights),
      decoder = await createDecoder(config, print.weights, engine ?? linearEngine(linear ?? defaultLinear()));
    return { name, config, tokenizer, decoder, chatTemplate, fingerprint: await print.digest(stored) };
  } finally {
    await close();
  }
}

/** The folder of `@kv/model-embedded`, unless `KV_EMBEDDED_DIR` names another. */
export function embeddedFolder(): string {
  const own = typeof process === 'object' ? process.env.KV_EMBEDDED_DIR : undefined;
  if (own !== undefined && own !== '') return own;
  const require = builtin('node:module').createRequire(import.meta.url);
  try {
    return builtin('node:path').dirname(require.resolve('@kv/model-embedded/config.json'));
  } catch {
    throw new KvError(
      'embedded',
      'expected the package @kv/model-embedded with its config.json beside @kv/models, got neither it nor KV_EMBEDDED_DIR',
    );
  }
}

import { createHash } from 'node:crypto';
import { createReadStream, existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { KvError } from '@kv/core';
import { partsOf } from '@kv/hub';
import { checkpointPath } from './model-source.ts';

/**
 * Returns a digest of a model's weights and tokenizer, so that results of another model with the same name are never
 * reused.
 */
export async function weightsDigest(model: string): Promise<string> {
  const hash = createHash('sha256');
  for (const file of filesOf(checkpointPath(model)))
    for await (const part of createReadStream(file)) hash.update(part as Buffer);
  return hash.digest('hex').slice(0, 16);
}

/**
 * Returns the files of a model: a .gguf file with its other parts, or in a folder the weights, whole or in shards, without the files that
 * pieces keep there.
 */
function filesOf(path: string): readonly string[] {
  if (/^https?:/.test(path))
    throw new KvError('--model', `expected a model on this machine, whose files are part of what is kept, got ${path}`);
  if (!statSync(path).isDirectory()) return partsOf(path).filter((part) => existsSync(part));
  return [
    'config.json',
    'tokenizer.json',
    ...readdirSync(path)
      .filter((name) => /^model.*\.safetensors$/.test(name))
      .sort(),
  ].map((name) => join(path, name));
}

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A digest of a model's weights and tokenizer, so that results of another model under the same name are never taken for this one's. */
export async function weightsDigest(model: string): Promise<string> {
  const hash = createHash('sha256');
  for (const file of ['config.json', 'tokenizer.json', 'model.safetensors']) for await (const part of createReadStream(join(folderOf(model), file))) hash.update(part as Buffer);
  return hash.digest('hex').slice(0, 16);
}

function folderOf(model: string): string {
  if (model !== 'embedded') return model;
  return process.env.KV_EMBEDDED_DIR || fileURLToPath(new URL('.', import.meta.resolve('@kv/model-embedded/config.json')));
}

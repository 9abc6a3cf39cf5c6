import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { AutoModelForCausalLM, AutoTokenizer, Tensor } from '@huggingface/transformers';
import { exportOnnx } from '@kv/engine-onnx';

/**
 * Returns a checkpoint as a folder that transformers.js loads: a .gguf file is exported once in f32, to a temporary
 * folder.
 */
export async function onnxFolder(path) {
  if (!path.endsWith('.gguf')) return resolve(path);
  const folder = join(tmpdir(), `kv-onnx-${basename(path, '.gguf')}`);
  // written last
  if (!existsSync(join(folder, 'tokenizer_config.json'))) await exportOnnx(resolve(path), folder);
  return folder;
}

/** Opens it in transformers.js, with the `source` that policies of queries need. */
export async function loaded(folder, { threads = 1 } = {}) {
  const options = { dtype: 'fp32', session_options: { intraOpNumThreads: threads, interOpNumThreads: 1 } };
  return {
    model: await AutoModelForCausalLM.from_pretrained(folder, options),
    tokenizer: await AutoTokenizer.from_pretrained(folder),
    source: { model: folder, ...options },
  };
}

/** Returns ids in the form that `generate` takes. */
export const inputsOf = (ids) => ({
  input_ids: new Tensor('int64', BigInt64Array.from(ids, BigInt), [1, ids.length]),
  attention_mask: new Tensor('int64', new BigInt64Array(ids.length).fill(1n), [1, ids.length]),
});

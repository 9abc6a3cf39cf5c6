import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { AutoModelForCausalLM, AutoTokenizer } from '@huggingface/transformers';
import type { PreTrainedModel, PreTrainedTokenizer, Tensor } from '@huggingface/transformers';
import { exportOnnx } from '@kv/models';
import type { ExportOptions } from '@kv/models';

export interface Exported {
  readonly folder: string;
  readonly model: PreTrainedModel;
  readonly tokenizer: PreTrainedTokenizer;
}

const made: string[] = [];
afterAll(() => {
  for (const folder of made) rmSync(folder, { recursive: true });
});

/** The embedded model as transformers.js loads it. */
export async function exported(options: ExportOptions = {}, dtype: 'fp32' | 'q4' = 'fp32'): Promise<Exported> {
  const folder = mkdtempSync(join(tmpdir(), 'kv-adapter-'));
  made.push(folder);
  await exportOnnx('embedded', folder, options);
  return {
    folder,
    model: await AutoModelForCausalLM.from_pretrained(folder, { dtype }),
    tokenizer: await AutoTokenizer.from_pretrained(folder),
  };
}

export const idsOf = (tensor: unknown): number[] => Array.from((tensor as Tensor).data as BigInt64Array, Number);

export interface Prompted {
  readonly input_ids: Tensor;
  readonly attention_mask: Tensor;
}

/** The generated ids alone. */
export async function generated(
  model: PreTrainedModel,
  inputs: Prompted,
  options: { readonly max_new_tokens: number; readonly [name: string]: unknown },
): Promise<number[]> {
  const all = await model.generate({ ...inputs, do_sample: false, ...options } as never);
  return idsOf(all).slice(inputs.input_ids.dims[1]);
}

export const TEXT =
  'The key of Ana is 4821. The sky was grey over the town, and the boats lay still. The key of Bo is 9377. Nobody came to the market on that day. What is the key of Ana?';

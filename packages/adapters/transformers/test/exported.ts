import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { AutoModelForCausalLM, AutoTokenizer } from '@huggingface/transformers';
import type { PreTrainedModel, PreTrainedTokenizer } from '@huggingface/transformers';
import { exportOnnx } from '@kv/engine-onnx';
import type { ExportOptions } from '@kv/engine-onnx';

export interface Exported {
  readonly folder: string;
  readonly model: PreTrainedModel;
  readonly tokenizer: PreTrainedTokenizer;
}

const made: string[] = [];
afterAll(() => {
  for (const folder of made) rmSync(folder, { recursive: true });
});

/** Creates an empty folder, deleted after the tests. */
export function madeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'kv-adapter-'));
  made.push(folder);
  return folder;
}

/** The embedded model as transformers.js loads it. */
export async function exported(options: ExportOptions = {}, dtype: 'fp32' | 'q4' = 'fp32'): Promise<Exported> {
  const folder = madeFolder();
  await exportOnnx('embedded', folder, options);
  return {
    folder,
    model: await AutoModelForCausalLM.from_pretrained(folder, { dtype }),
    tokenizer: await AutoTokenizer.from_pretrained(folder),
  };
}

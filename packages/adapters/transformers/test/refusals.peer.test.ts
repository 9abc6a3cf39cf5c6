import { fileURLToPath } from 'node:url';
import { AutoModelForCausalLM, AutoModelForSeq2SeqLM } from '@huggingface/transformers';
import type { PreTrainedModel } from '@huggingface/transformers';
import { exportOnnx } from '@kv/engine-onnx';
import { policy } from '@kv/policies';
import { expect, test } from 'vitest';
import { withPolicy } from '../src/index.ts';
import { madeFolder } from './exported.ts';
import { made } from './made.ts';

const options = { dtype: 'fp32' } as const,
  refusal = async (model: PreTrainedModel): Promise<unknown> =>
    withPolicy(model, { policy: policy('knorm'), budget: 40 }).then(
      () => 'taken',
      (error: Error) => error.message,
    );

test('graphs without a cache, of two parts, and with other layers than attention', async () => {
  expect(await refusal(await AutoModelForCausalLM.from_pretrained(made('cacheless'), options))).toBe(
    'withPolicy: expected a model with a cache (inputs past_key_values.N.key and .value), got llama with input_ids',
  );
  expect(await refusal(await AutoModelForSeq2SeqLM.from_pretrained(made('encoderDecoder'), options))).toBe(
    'withPolicy: expected a decoder-only model, got t5, an encoder-decoder or a model of several parts',
  );
  expect(await refusal(await AutoModelForCausalLM.from_pretrained(made('hybrid'), options))).toBe(
    'withPolicy: expected layers of attention alone, got lfm2 with the input past_conv.0',
  );
});

test.each([
  ['gemma3', /^withPolicy: expected a model whose layers see all slots, .* got gemma3_text with a window of \d+$/],
  ['mistral', /^withPolicy: expected a model whose layers see all slots, .* got mistral with a window of \d+$/],
])('an export of %s, whose layers see a window', async (family, sentence) => {
  const folder = madeFolder();
  await exportOnnx(fileURLToPath(new URL(`../../../model-testing/fixtures/${family}`, import.meta.url)), folder);
  expect(await refusal(await AutoModelForCausalLM.from_pretrained(folder, options))).toMatch(sentence);
});

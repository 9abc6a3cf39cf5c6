import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { generate, loadModel } from '../src/index.ts';
import { fixture, greedy } from '@kv/model-testing/fixture';

/** Returns a safetensors file with its tensors under other names, null leaving one out. */
function renamed(file: Uint8Array, name: (tensor: string) => string | null): Uint8Array<ArrayBuffer> {
  const start = 8 + Number(Buffer.from(file.buffer, file.byteOffset).readBigUInt64LE(0)),
    header = JSON.parse(Buffer.from(file.subarray(8, start)).toString('utf8')) as Record<string, unknown>,
    text = JSON.stringify(
      Object.fromEntries(
        Object.entries(header).flatMap(([tensor, place]) => {
          const to = tensor === '__metadata__' ? tensor : name(tensor);
          return to === null ? [] : [[to, place]];
        }),
      ),
    ),
    head = Buffer.from(text.padEnd(8 * Math.ceil(text.length / 8)));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(head.length));
  return Uint8Array.from(Buffer.concat([size, head, file.subarray(start)]));
}

const older = (tensor: string): string =>
  tensor
    .replace(/^model\.language_model\./, 'language_model.model.')
    .replace(/^lm_head/, 'language_model.lm_head')
    .replace(/^model\.(vision_tower|multi_modal_projector)\./, '$1.');

test.each<[string, string, (tensor: string) => string | null, boolean | undefined]>([
  ['as published files name it', 'ministral3-untied', older, undefined],
  // the class of the whole says tied by default, whatever the file has
  ['where the whole says that the head is tied', 'ministral3-untied', (tensor) => tensor, true],
  [
    'where only the file says that it is',
    'ministral3',
    (tensor) => tensor.replace(/^model\./, 'model.language_model.'),
    undefined,
  ],
])('a text model within one of images, %s', async (_, name, rename, tied) => {
  const json = JSON.parse(readFileSync(fixture(`${name}/config.json`), 'utf8')) as Record<string, object>,
    { tie_word_embeddings: __, ...text } = (json.text_config ?? json) as Record<string, unknown>,
    config = { model_type: 'mistral3', text_config: text, ...(tied !== undefined && { tie_word_embeddings: tied }) },
    tensors = renamed(readFileSync(fixture(`${name}/model.safetensors`)), rename);
  const model = await loadModel('/', {
      files: new Map([
        ['config.json', new Blob([JSON.stringify(config)])],
        ['tokenizer.json', new Blob([readFileSync(fixture(`${name}/tokenizer.json`))])],
        ['model.safetensors', new Blob([tensors])],
      ]),
    }),
    { after, tokens } = greedy(name, '.');
  expect(model.config.architecture).toBe('ministral3');
  expect(model.config.tied).toBe(name === 'ministral3');
  const answer = await generate(model, { ids: after, maxNewTokens: tokens.length, stopAtEos: false });
  expect(answer.tokens).toEqual(tokens);
  model.destroy();
});

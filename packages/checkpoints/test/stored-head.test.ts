/** Which matrix of a safetensors folder is the head, as transformers takes it (modeling_utils.py, `tie_weights`). */
import type { TensorBytes } from '@kv/model-testing/safetensors-file';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { dense } from '../src/format/matrix.ts';
import { openAltered, tensorsOf } from './altered-folder.ts';

const EMBED = 'model.embed_tokens.weight',
  HEAD = 'lm_head.weight';

async function opened(name: string, tensors: Readonly<Record<string, TensorBytes>>, tied: boolean) {
  const { config, weights, close } = await openAltered(name, tensors, (json) => ({
    ...json,
    tie_word_embeddings: tied,
  }));
  try {
    return { tied: config.tied, embed: dense(await weights.embed()), head: dense(await weights.head()) };
  } finally {
    await close();
  }
}

test('a stored head that differs from the embedding in any byte is the head, whatever the configuration says', async () => {
  const tensors = await tensorsOf('llama32'),
    embed = tensors[EMBED],
    whole = await opened('llama32', tensors, true);
  expect(whole.tied).toBe(true);
  await fc.assert(
    fc.asyncProperty(fc.nat(embed.bytes.length - 1), fc.boolean(), async (at, differs) => {
      const bytes = Uint8Array.from(embed.bytes);
      if (differs) bytes[at] ^= 1;
      const read = await opened('llama32', { ...tensors, [HEAD]: { ...embed, bytes } }, true);
      expect(read.tied).toBe(!differs);
      expect(read.embed).toEqual(whole.embed);
      expect(read.head.some((x, i) => x !== whole.embed[i])).toBe(differs);
    }),
    { numRuns: 12 },
  );
});

test('a head of another type is another head', async () => {
  const tensors = await tensorsOf('llama32'),
    { shape, bytes, dtype } = tensors[EMBED];
  expect(dtype).toBe('F16');
  const read = await opened('llama32', { ...tensors, [HEAD]: { dtype: 'BF16', shape, bytes } }, true);
  expect(read.tied).toBe(false);
});

test('of a tied model the head alone may be stored, of another it may not', async () => {
  const { [EMBED]: embed, ...others } = await tensorsOf('llama32'),
    tensors = { ...others, [HEAD]: embed },
    whole = await opened('llama32', { ...others, [EMBED]: embed }, true);
  expect(await opened('llama32', tensors, true)).toEqual(whole);
  await expect(opened('llama32', tensors, false)).rejects.toThrow(`expected a tensor ${EMBED}`);
});

test.each(['ministral3-untied', 'qwen3_5_moe-untied'])(
  'a text model within another has its own head: %s',
  async (name) => {
    const tensors = await tensorsOf(name),
      [embed] = Object.keys(tensors).filter((tensor) => tensor.endsWith('.embed_tokens.weight'));
    for (const tied of [true, false]) expect((await opened(name, tensors, tied)).tied).toBe(false);
    const equal = { ...tensors, [HEAD]: tensors[embed] };
    for (const tied of [true, false]) expect((await opened(name, equal, tied)).tied).toBe(tied);
    const alone = Object.fromEntries(Object.entries(equal).filter(([tensor]) => tensor !== embed));
    expect((await opened(name, alone, true)).head).toEqual((await opened(name, equal, true)).head);
  },
);

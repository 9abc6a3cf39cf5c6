import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { readGguf } from '../src/format/gguf.ts';
import { fileSource } from '../src/read/source.ts';
import { ggufTokenizer } from '../src/tokenizer/gguf.ts';

const shared = process.env['KV_SHARED'];

/** llama.cpp's vocabulary file of Llama 2, under Meta's licence; it is not part of this repository. */
test.skipIf(shared === undefined)(
  "the vocabulary of Llama 2: ids of llama.cpp's test texts, and the texts back",
  async () => {
    const path = `${shared}/data/models/ggml-vocab-llama-spm.gguf`;
    const { metadata, tensors, close } = await readGguf(await fileSource(path));
    await close();
    const tokens = metadata.get('tokenizer.ggml.tokens') as readonly string[];
    expect([tensors.size, tokens.length, tokens[29_896], metadata.get('llama.context_length')]).toEqual([
      0,
      32_000,
      '1',
      4096,
    ]);
    const tokenizer = ggufTokenizer(metadata, 'spm');
    const inputs = readFileSync(`${path}.inp`, 'utf8').split('\n__ggml_vocab_test__\n');
    const outputs = readFileSync(`${path}.out`, 'utf8').split('\n');
    expect(inputs.length).toBe(47);
    expect(outputs.length).toBe(inputs.length);
    inputs.forEach((text, i) => {
      const ids = outputs[i].split(' ').filter(Boolean).map(Number);
      expect(tokenizer.encode(text, { special: false }).ids).toEqual(ids);
      expect(tokenizer.decode(ids)).toBe(text);
    });
  },
);

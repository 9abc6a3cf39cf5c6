import { readFileSync } from 'node:fs';
import { createTokenizer, fileSource, ggufTokenizer, readGguf, type Tokenizer } from '@kv/checkpoints';
import { reference } from '@kv/model-testing/reference';
import { smollm2File } from '@kv/model-testing/smollm2-file';
import type { VocabularyModel } from '../src/index.ts';

async function gguf(file: string): Promise<VocabularyModel> {
  const { metadata, close } = await readGguf(await fileSource(file));
  await close();
  const tokenizer = ggufTokenizer(metadata, file);
  return { tokenizer, config: { vocab: tokenizer.size, eosIds: [tokenizer.eosId ?? 2] } };
}
function json(file: string, end: string): VocabularyModel {
  const tokenizer: Tokenizer = createTokenizer(JSON.parse(readFileSync(reference(file), 'utf8')), file);
  // more logits than tokens, as in checkpoints that pad their embedding
  return { tokenizer, config: { vocab: tokenizer.size + 40, eosIds: [tokenizer.specials.get(end) as number] } };
}

/** Vocabularies of each kind of tokenizer: byte-level, SentencePiece with bytes for what it lacks, and a real one. */
export const vocabularies: readonly (readonly [name: string, read: () => Promise<VocabularyModel>])[] = [
  ['byte-level', async () => json('data/models/retriever-1.3m/tokenizer.json', '</s>')],
  ['SentencePiece', () => gguf(reference('data/models/vocabulary-spm.gguf'))],
  ...(smollm2File('walks over its vocabulary') === undefined
    ? []
    : ([['SmolLM2', () => gguf(smollm2File('walks over its vocabulary') as string)]] as const)),
];

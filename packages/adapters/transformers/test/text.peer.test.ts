import { readFileSync } from 'node:fs';
import { PreTrainedTokenizer } from '@huggingface/transformers';
import { createTokenizer } from '@kv/checkpoints';
import { TokenText } from '@kv/engine';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SequenceText } from '../src/text.ts';

const texts = [
  'The capital ',
  ' ',
  '  ',
  '.',
  '\n',
  'é',
  'हिन्दी ',
  '文字',
  '한국어',
  'שלום ',
  '🐶 of',
  '👩‍👩‍👧',
  '\u200F',
];

describe.each(['llama2', 'qwen2', 'gemma', 'smollm'])('%s', (name) => {
  const { tokenizer: json } = JSON.parse(
      readFileSync(new URL(`../../../model-testing/fixtures/tokenizers/${name}.json`, import.meta.url), 'utf8'),
    ) as { tokenizer: object },
    own = createTokenizer(json, name),
    library = new PreTrainedTokenizer(json, {});

  test('text and offsets are those of the sequence, at every cut, with special tokens within', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.constantFrom(...texts), fc.constantFrom(...own.specials.values())), { maxLength: 8 }),
        (parts) => {
          const ids = parts.flatMap((part) => (typeof part === 'number' ? [part] : [...own.encode(part).ids])),
            want = new TokenText(own);
          let text = new SequenceText(library);
          for (const id of ids) {
            want.push(id);
            text = text.fork();
            text.push(id);
          }
          const { ids: got, offsets } = text;
          expect([text.text, got, offsets]).toEqual([want.text, want.ids, want.offsets]);
        },
      ),
      { numRuns: 60 },
    );
  });
});

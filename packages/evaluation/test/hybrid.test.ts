import { fileURLToPath } from 'node:url';
import { generate, loadModel } from '@kv/models';
import { policy } from '@kv/policies';
import { exactMatch, heldOutBook, needle, NEEDLE_STOP, sentencesOf } from '@kv/tasks';
import { expect, it } from 'vitest';

const folder = fileURLToPath(new URL('../../model-hybrid', import.meta.url));

it('a hybrid finds a fact with its slots, under a policy that keeps it, and not with its states alone', async () => {
  const model = await loadModel(folder),
    { encode } = model.tokenizer,
    sentences = sentencesOf(await heldOutBook()),
    kept = policy('snapkv', { window: 16, kernel: 17, pooling: 'max' }),
    right = { full: 0, kept: 0, states: 0 },
    prompts = 8;
  for (let seed = 0; seed < prompts; seed++) {
    const { document, question, value } = needle({ encode, sentences, tokens: 256, depth: seed / prompts, seed }),
      ids = encode(document + question).ids,
      answer = async (options: object): Promise<number> =>
        Number(
          exactMatch((await generate(model, { ids, maxNewTokens: 16, stop: NEEDLE_STOP, ...options })).text, value),
        );
    right.full += await answer({});
    right.kept += await answer({ policy: kept, budget: '25%' });
    right.states += await answer({ policy: policy('streaming', { sinks: 0 }), budget: 1 });
  }
  expect(right).toEqual({ full: prompts, kept: expect.any(Number) as number, states: 0 });
  expect(right.kept).toBeGreaterThan(prompts / 2);
  model.destroy();
});

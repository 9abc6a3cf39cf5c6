/** Two policies on the same prompts, with Wilson intervals, and the difference between them paired by prompt. */
import { generate, loadModel } from '@kv/models';
import { exactMatch, heldOutBook, needle, NEEDLE_NEW_TOKENS, NEEDLE_STOP, sentencesOf, wilson } from '@kv/tasks';

const [prompts, budget] = [10, '25%'];
const texts = ['streaming', 'snapkv(window=16,kernel=17,pooling=max) | topK'];
const model = await loadModel('embedded');
const sentences = sentencesOf(await heldOutBook());

const right = new Map(texts.map((text) => [text, 0]));
for (let seed = 0; seed < prompts; seed++) {
  const { document, question, value } = needle({
    encode: model.tokenizer.encode,
    sentences,
    tokens: 384,
    depth: 0.5,
    seed,
  });
  for (const text of texts) {
    const { text: answer } = await generate(model, {
      prompt: document + question,
      policy: text,
      budget,
      maxNewTokens: NEEDLE_NEW_TOKENS,
      stop: NEEDLE_STOP,
    });
    right.set(text, right.get(text) + Number(exactMatch(answer, value)));
  }
}
for (const [text, count] of right) {
  const { low, high } = wilson(count, prompts);
  console.log(`${count} of ${prompts} right, 95 % interval ${low.toFixed(2)} to ${high.toFixed(2)}: ${text}`);
}
console.log('Screening: fewer than 200 prompts decide nothing.');

// prints:
// 0 of 10 right, 95 % interval 0.00 to 0.28: streaming
// 10 of 10 right, 95 % interval 0.72 to 1.00: snapkv(window=16,kernel=17,pooling=max) | topK
// Screening: fewer than 200 prompts decide nothing.

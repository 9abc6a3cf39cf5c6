/** One document, one prefill, one eviction, and every question over its own copy of what was kept. */
import { loadModel, Sequence } from '@kv/models';

const document = `${'The boys walked on in silence. '.repeat(20)}The secret code is: XK7M9P2Q. ${'The river was wide. '.repeat(20)}The vault code is: 9QX2LM. ${'Nobody spoke. '.repeat(20)}`;
const questions = ['The secret code is:', 'The vault code is:'];

const model = await loadModel('embedded');
const sequence = new Sequence(model);
await sequence.prefill(model.tokenizer.encode(document).ids, {
  policy: 'taFast',
  budget: 64,
});
console.log(`kept ${sequence.kept()[0][0].length} slots of ${sequence.progress.length} tokens`);
for (const question of questions) {
  const copy = sequence.fork();
  await copy.prefill(model.tokenizer.encode(question).ids, {});
  const asked = copy.progress.text.text.length;
  for (let i = 0; i < 12; i++) await copy.step(await copy.next());
  console.log(`${question}${copy.progress.text.text.slice(asked).split('.')[0]}`);
  copy.destroy();
}
sequence.destroy();

// prints:
// kept 64 slots of 678 tokens
// The secret code is: XK7M9P2Q
// The vault code is: 9QX2LM

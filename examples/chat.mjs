/** A conversation past the model's context, over a cache of fixed size: it is cut after every turn. */
import { loadModel, Sequence } from '@kv/models';

const model = await loadModel('embedded');
const policy = 'streaming';
const talk = 'The boys walked on in silence. '.repeat(40);
const turns = [...Array.from({ length: 12 }, () => talk), `The secret code is: XK7M9P2Q. ${talk}The secret code is:`];

const sequence = new Sequence(model);
for (const turn of turns) {
  await sequence.append(model.tokenizer.encode(turn, { special: false }).ids);
  if (turn === turns.at(-1)) break;
  await sequence.evict(policy, 96);
}
const asked = sequence.progress.text.text.length;
for (let i = 0; i < 12; i++) await sequence.step(await sequence.next());
console.log(
  `the model has room for ${model.config.maxPositions} tokens, the conversation has ${sequence.progress.length}`,
);
console.log(`The secret code is:${sequence.progress.text.text.slice(asked).split('.')[0]}`);
await sequence.evict(policy, 96);
console.log(`${sequence.kept()[0][0].length} slots kept`);
sequence.destroy();

// prints:
// the model has room for 4096 tokens, the conversation has 7333
// The secret code is: XK7M9P2Q
// 96 slots kept

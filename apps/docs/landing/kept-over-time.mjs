import { decode, loadModel, Sequence } from '@kv/models';
import { conversation, question } from './conversation.mjs';

const model = await loadModel('embedded'); // or a GGUF file, or the folder of a checkpoint
const ids = (text) => model.tokenizer.encode(text).ids;
for (const policy of ['streaming', 'taFast(reach=12,slots=24)']) {
  const sequence = new Sequence(model);
  for await (const read of sequence.prefillParts(ids(conversation), { policy, budget: 48, block: 16 }))
    console.log(JSON.stringify({ policy, read, kept: sequence.kept() })); // a frame of the picture
  await sequence.append(ids(question));
  let answer = '';
  for await (const { text } of decode(sequence, { maxNewTokens: 12, stop: ['.', '\n'] })) answer += text;
  console.log(JSON.stringify({ policy, answer }));
}

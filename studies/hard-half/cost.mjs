// node studies/hard-half/cost.mjs MODEL.gguf [--tokens 1024,4096] [--policies full,...]: the most bytes that each
// policy alone holds, on the first document of the set `dev`, beside the full cache's.
import { commandLine } from '../../bench/lib/command-line.mjs';
import { promptOf } from './prompts.mjs';
import { load } from './packages.mjs';

const { cpuRuntime, loadModel, Sequence } = await load('models'),
  { parsePolicy } = await load('policies'),
  { heldOutBook, sentencesOf } = await load('tasks');
const { path, tokens, policies } = commandLine(
  { tokens: [1024, 4096], policies: ['full', 'outstandingSentences', 'compactor', 'kvzip'] },
  'the path of a .gguf file',
);
const model = await loadModel(path, { runtime: cpuRuntime({ exact: false, threads: 1 }) }),
  sentences = sentencesOf(await heldOutBook());
console.log('| tokens | policy | peak MiB | peak / full cache |\n| --- | --- | --- | --- |');
for (const length of tokens) {
  const { documentIds } = promptOf(model.tokenizer.encode, sentences, {
    set: 'dev',
    tokens: length,
    form: 'number',
    i: 0,
  });
  let full = 0;
  for (const policy of policies) {
    const sequence = new Sequence(model);
    await sequence.prefill(documentIds, { policy: parsePolicy(policy), budget: '10%', forget: true });
    const { peak } = sequence.bytes();
    if (policy === 'full') full = peak;
    console.log(`| ${length} | \`${policy}\` | ${(peak / 2 ** 20).toFixed(1)} | ${(peak / full).toFixed(2)} |`);
    sequence.destroy();
  }
}

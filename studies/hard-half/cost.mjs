// npm run -s study -- hard-half/cost MODEL.gguf [--tokens 1024,4096] [--policies full,...]
// The most bytes that each policy alone holds on the first document of the set `dev`, and the full cache's.
import { cpuRuntime, loadModel, Sequence } from '@kv/models';
import { parsePolicy } from '@kv/policies';
import { heldOutBook, sentencesOf } from '@kv/tasks';
import { commandLine } from '../../bench/lib/command-line.mjs';
import { promptOf } from './prompts.mjs';

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
    const { peak } = sequence.memory.ledger.bytes();
    if (policy === 'full') full = peak;
    console.log(`| ${length} | \`${policy}\` | ${(peak / 2 ** 20).toFixed(1)} | ${(peak / full).toFixed(2)} |`);
    sequence.destroy();
  }
}

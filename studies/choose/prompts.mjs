// npm run -s study -- choose/prompts PROMPTS.jsonl --model MODEL.gguf [--set timed] [--prompts 40] [--tokens 1000]
// Prompts as a person has them, for `kv choose --prompts`: facts in a novel, asked after it.
import { writeFileSync } from 'node:fs';
import { loadModel } from '@kv/models';
import { heldOutBook, needle, NEEDLE_NEW_TOKENS, sentencesOf } from '@kv/tasks';
import { commandLine } from '../../bench/lib/command-line.mjs';

const { path, ...options } = commandLine(
    { model: undefined, set: 'timed', prompts: 40, tokens: 1000 },
    'the file of prompts',
  ),
  { tokenizer } = await loadModel(options.model),
  sentences = sentencesOf(await heldOutBook());
const rows = Array.from({ length: options.prompts }, (_, i) => {
  const { document, question, value } = needle({
    ...{ encode: tokenizer.encode, sentences, form: 'number', asking: 'free', tokens: options.tokens },
    ...{ depth: ((i % 10) + 0.5) / 10, seed: `choose/${options.set}/${i}` },
  });
  return JSON.stringify({ context: document, question, answer: value, maxNewTokens: NEEDLE_NEW_TOKENS });
});
writeFileSync(path, `${rows.join('\n')}\n`);
console.log(`${rows.length} prompts in ${path}`);

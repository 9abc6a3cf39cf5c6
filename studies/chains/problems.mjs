// npm run -s study -- chains/problems SEED
// Writes the 500 problems of a seed that plans of `kv protocol` name, problems-SEED.jsonl, into this folder.
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { loadModel } from '@kv/models';
import { generateProblems, heldOutBook, sentencesOf } from '@kv/tasks';

const seed = Number(process.argv[2] ?? 0),
  { tokenizer } = await loadModel(fileURLToPath(new URL('../../packages/model-reasoner', import.meta.url))),
  sentences = sentencesOf(await heldOutBook()),
  problems = generateProblems('chain', { encode: tokenizer.encode, sentences, tokens: 384, problems: 500, seed });
writeFileSync(
  new URL(`problems-${seed}.jsonl`, import.meta.url),
  problems.map((problem) => `${JSON.stringify(problem)}\n`).join(''),
);

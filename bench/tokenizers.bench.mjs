/**
 * Characters a second of encoding a text to ids and offsets, against @huggingface/tokenizers alone (ids only, its
 * expressions run by JavaScript's backtracking), in turns within each round, over the vocabularies of GPT-2 and GPT-4.
 *
 *   npm run bench tokenizers    or, once built:   node bench/tokenizers.bench.mjs --rounds 5 --characters 400000
 */
import { Tokenizer } from '@huggingface/tokenizers';
import { createTokenizer } from '@kv/checkpoints';
import { heldOutBook } from '@kv/tasks';
import cl100k from 'js-tiktoken/ranks/cl100k_base';
import gpt2 from 'js-tiktoken/ranks/gpt2';
import { commandLine } from './lib/command-line.mjs';
import { median } from './lib/spread.mjs';
import { modelOf, splits } from './lib/tiktoken.mjs';

/** `other`: another build of `createTokenizer`, such as an earlier one, run in turns with this one. */
const { rounds, characters, other } = commandLine({ rounds: 5, characters: 400_000, other: undefined });
const text = (await heldOutBook()).slice(0, characters);

const vocabularies = { gpt2: modelOf(gpt2), cl100k: modelOf(cl100k) };
const models = [
  ['gpt2', 'gpt2', [splits.gpt2]],
  ['smollm', 'gpt2', ['\\p{N}', splits.gpt2]],
  ['llama3', 'cl100k', [splits.cl100k('\\p{N}{1,3}')]],
  ['qwen2', 'cl100k', [splits.cl100k('\\p{N}')]],
  ['o200k', 'cl100k', [splits.o200k]],
];
const before = other && (await import(other)).createTokenizer;

console.log(`${text.length} characters, ${rounds} rounds, median (least to most)`);
for (const [name, vocabulary, expressions] of models) {
  const json = {
    added_tokens: [],
    normalizer: null,
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        ...expressions.map((Regex) => ({ type: 'Split', pattern: { Regex }, behavior: 'Isolated', invert: false })),
        { type: 'ByteLevel', add_prefix_space: false, use_regex: false },
      ],
    },
    post_processor: null,
    decoder: { type: 'ByteLevel' },
    model: { type: 'BPE', ...vocabularies[vocabulary] },
  };
  const library = new Tokenizer({ ...json, decoder: null }, {});
  const runs = {
    ours: createTokenizer(json, name),
    library: { encode: (part) => library.encode(part, { add_special_tokens: false }) },
    ...(before && { before: before(json, name) }),
  };
  const times = Object.fromEntries(Object.keys(runs).map((run) => [run, []]));
  for (let round = 0; round <= rounds; round++)
    for (const [run, { encode }] of Object.entries(runs)) {
      const start = performance.now();
      const { ids } = encode(text);
      if (round > 0) times[run].push(performance.now() - start);
      if (ids.length === 0) throw new Error('expected ids, got none');
    }
  const same = String(runs.ours.encode(text).ids) === String(runs.library.encode(text).ids);
  const speed = (ms) => (text.length / ms / 1000).toFixed(2);
  const ratio = (run) => {
    const each = times[run].map((ms, i) => ms / times.ours[i]);
    return `${median(each).toFixed(2)} (${Math.min(...each).toFixed(2)} to ${Math.max(...each).toFixed(2)}) of the speed of ${run}`;
  };
  console.log(
    `${name.padEnd(8)} ${speed(median(times.ours))} million characters a second, ${ratio('library')}${before ? `, ${ratio('before')}` : ''}, ids ${same ? 'equal' : 'DIFFER'}`,
  );
}

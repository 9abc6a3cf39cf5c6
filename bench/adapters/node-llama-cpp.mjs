// A credential said at the beginning of a long chat in node-llama-cpp, and asked for at its end: answers under its own
// strategies and those of @kv/adapters-node-llama-cpp, and tokens a second. SmolLM2-135M (`node tools/smollm2.mjs`).
//   node bench/adapters/node-llama-cpp.mjs MODEL.gguf [--tokens 6000] [--context 2048] [--budget 1024] [--threads 1] [--codes 3] [--out FILE]
// Needs the packages built. All cases of a code have the same text; the order of cases rotates with the code.
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { resolve } from 'node:path';
import { retainHistory, retainTokens } from '@kv/adapters-node-llama-cpp';
import { parsePolicy } from '@kv/policies';
import { heldOutBook } from '@kv/tasks';
import { getLlama, getModuleVersion, LlamaChatSession } from 'node-llama-cpp';
import { commandLine } from '../lib/command-line.mjs';
import { table } from '../lib/table.mjs';

const {
    path,
    tokens,
    context: contextSize,
    budget,
    threads,
    codes,
    policy,
    text: book,
    out,
  } = commandLine(
    {
      tokens: 6000,
      context: 2048,
      budget: 1024,
      threads: 1,
      codes: 3,
      policy:
        'weighted(0.5*recency,1*sponsorship(reach=12)) ∘ mandatory(sinks=4,recent=64) ∘ sentences ∘ wholeUnits(last=fill)',
      text: undefined,
      out: undefined,
    },
    'the path of a .gguf file',
  ),
  prose = (book === undefined ? await heldOutBook() : readFileSync(book, 'utf8')).replace(/\s+/g, ' ');

const llama = await getLlama({ gpu: false, build: 'never', skipDownload: true, logLevel: 'error' }),
  model = await llama.loadModel({ modelPath: resolve(path) }),
  under = parsePolicy(policy),
  alone = parsePolicy('taFast(reach=12,slots=16)');
const CODES = ['7F3K9Q2X', 'M4T8W1ZB', 'P9X2L6VC', 'R5N7H3DJ', 'K2B6Y8GS'];

/** Milliseconds of processor time, which other work on the machine changes little. */
const clock = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e3;
};
/** The chat's messages: a credential, then prose to read in parts. */
function messages(code) {
  const parts = [];
  for (let count = 0, at = 5000; count < tokens; ) {
    const end = prose.indexOf('. ', at + 900) + 2,
      text = prose.slice(at, end);
    at = end;
    count += model.tokenize(text).length;
    parts.push(text);
  }
  return [`The secret code is: ${code}. Remember it.`, ...parts];
}
const question = 'What is the secret code?',
  begun = 'The secret code is:';

/** Greedy text up to eight words of an answer, and tokens a second of feeding and of generating. */
async function raw(contextShift, code) {
  const context = await model.createContext({ contextSize, threads }),
    sequence = context.getSequence({ contextShift }),
    [first, ...parts] = messages(code),
    turn = (role, text) => model.tokenize(`<|im_start|>${role}\n${text}<|im_end|>\n`, true);
  let fed = 0;
  const start = clock();
  for (const text of [first, ...parts])
    for (const ids of [turn('user', text), turn('assistant', 'I see.')]) {
      await sequence.evaluateWithoutGeneratingNewTokens(ids);
      fed += ids.length;
    }
  const asked = clock(),
    out = [],
    ask = model.tokenize(`<|im_start|>user\n${question}<|im_end|>\n<|im_start|>assistant\n${begun}`, true),
    times = [];
  for await (const id of sequence.evaluate(ask, { temperature: 0 })) {
    out.push(id);
    times.push(clock());
    if (out.length === 24) break;
  }
  const held = model.detokenize(sequence.contextTokens, true);
  await context.dispose();
  return {
    answer: model.detokenize(out).split('\n')[0].trim(),
    feed: (1000 * fed) / (asked - start),
    decode: (1000 * (times.length - 1)) / (times.at(-1) - times[0]),
    seconds: (times.at(-1) - start) / 1000,
    fed,
    begins: held.slice(0, 120),
    holds: held.includes(code),
  };
}
/**
 * The same in a LlamaChatSession, whose strategy shortens the history; then a question that fits, to compare the
 * evaluation of the two.
 */
async function chat(contextShift, code) {
  const context = await model.createContext({ contextSize, threads }),
    contextSequence = context.getSequence(),
    session = new LlamaChatSession({ contextSequence, ...(contextShift && { contextShift }) }),
    [first, ...parts] = messages(code),
    history = [first, ...parts].flatMap((text) => [
      { type: 'user', text },
      { type: 'model', response: ['I see.'] },
    ]);
  session.setChatHistory([...session.getChatHistory(), ...history]);
  /** Returns an answer, the tokens evaluated for it, and its seconds. */
  const asked = async (text, responsePrefix) => {
    const start = clock(),
      before = contextSequence.tokenMeter.usedInputTokens,
      answer = await session.prompt(text, { temperature: 0, maxTokens: 24, responsePrefix });
    return {
      answer: answer.replace(responsePrefix, '').split('\n')[0].trim(),
      evaluated: contextSequence.tokenMeter.usedInputTokens - before,
      seconds: (clock() - start) / 1000,
    };
  };
  const asking = await asked(question, begun),
    again = await asked('And what did I ask you to do?', 'You asked me to');
  const holds = model.detokenize(contextSequence.contextTokens, true).includes(code);
  await context.dispose();
  return { ...asking, holds, again: { evaluated: again.evaluated, seconds: again.seconds } };
}

const strategy = ({ sequence }) => retainTokens(sequence, { policy: under, budget }),
  byTaFast = ({ sequence }) => retainTokens(sequence, { policy: alone, budget });
const cases = [
  ['getSequence, its own strategy (eraseBeginning)', (code) => raw({ size: contextSize - budget }, code)],
  [`getSequence, retainTokens, budget ${budget}`, (code) => raw({ strategy }, code)],
  ['getSequence, retainTokens with taFast alone', (code) => raw({ strategy: byTaFast }, code)],
  ['LlamaChatSession, its own strategy', (code) => chat({ size: contextSize - budget }, code)],
  [
    `LlamaChatSession, retainHistory`,
    (code) => chat({ size: contextSize - budget, strategy: retainHistory({ policy: under }) }, code),
  ],
];
const results = cases.map(() => []);
for (let turn = 0; turn < codes; turn++)
  for (let i = 0; i < cases.length; i++) {
    const c = (i + turn) % cases.length,
      code = CODES[turn % CODES.length],
      result = { code, ...(await cases[c][1](code)) };
    results[c].push(result);
    console.log(cases[c][0], JSON.stringify(result));
  }

const among = (list) => {
  const sorted = list.filter(Number.isFinite).sort((a, b) => a - b);
  return sorted.length === 0
    ? ''
    : `${sorted[sorted.length >> 1].toFixed(1)} (${sorted[0].toFixed(1)}-${sorted.at(-1).toFixed(1)})`;
};
const text = `# A credential ${tokens.toLocaleString('en')} tokens ago, in node-llama-cpp ${await getModuleVersion()}

${new Date().toISOString().slice(0, 10)}, ${cpus()[0].model.trim()}, ${threads} thread${threads === 1 ? '' : 's'}, Node ${process.version}, ${path.split('/').at(-1)}; a chat that begins with \`${messages('CODE')[0]}\`,
then ${tokens.toLocaleString('en')} tokens of prose in messages, then \`${question}\` with the answer begun, \`${begun}\`. A context of ${contextSize.toLocaleString('en')}; every strategy makes room for ${contextSize - budget}.
Median (smallest-largest) of ${codes} codes in one run, in processor time. Answered: the whole code, greedily; held: it is still in the context.
The policy is \`${under.label}\`: whole sentences, so that what is said of the code stays with it.

${table([
  [
    '',
    'answered',
    'held',
    'tokens/s, feeding',
    'tokens/s, generating',
    'seconds in all',
    'evaluated for the answer',
    'the next question: evaluated, seconds',
  ],
  ...cases.map(([name], c) => [
    name,
    `${results[c].filter(({ code, answer }) => answer.startsWith(code)).length} of ${codes}`,
    `${results[c].filter(({ holds }) => holds).length} of ${codes}`,
    among(results[c].map(({ feed }) => feed)),
    among(results[c].map(({ decode }) => decode)),
    among(results[c].map(({ seconds }) => seconds)),
    among(results[c].map(({ evaluated }) => evaluated)),
    results[c][0].again
      ? `${among(results[c].map(({ again }) => again.evaluated))}, ${among(results[c].map(({ again }) => again.seconds))}`
      : '',
  ]),
])}

A chat session that shortens its history evaluates anew what stands behind the first difference: the last two columns, of the question for which it did and of the next one, which fitted.

How the sequence began after the answer, under taFast alone: ${results[2].map(({ begins }) => `\`${begins.replaceAll('\n', ' ').replaceAll('`', "'")}\``).join(', ')}

What they said:

${results.flatMap((list, c) => list.map(({ code, answer }) => `- ${cases[c][0]}, ${code}: \`${answer}\``)).join('\n')}

\`node bench/adapters/node-llama-cpp.mjs MODEL.gguf --codes ${codes} --threads ${threads}\`
`;
console.log(text);
if (out) writeFileSync(out, text);
await llama.dispose();

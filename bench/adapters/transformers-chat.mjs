// A long chat in transformers.js, turn by turn over one cache: the library alone, and under policies, each in a process
// of its own. SmolLM2-135M (`node tools/smollm2.mjs`), or a folder of an ONNX export in f32.
//   node bench/adapters/transformers-chat.mjs MODEL.gguf|FOLDER [--tokens 8192] [--budget 1024] [--turns 16] [--answer 16]
//     [--threads 1] [--policies 'snapkv; taFast(...)'] [--out FILE.md]
// Needs the packages built. Speeds are tokens a second of processor time, which other work changes little.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DynamicCache, StoppingCriteria } from '@huggingface/transformers';
import { withPolicy } from '@kv/adapters-transformers';
import { parsePolicy } from '@kv/policies';
import { heldOutBook } from '@kv/tasks';
import { inputsOf, loaded, onnxFolder } from '../lib/onnx.mjs';
import { commandLine } from '../lib/command-line.mjs';
import { table } from '../lib/table.mjs';

const seconds = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};

/** Records the time of each token. */
class Clock extends StoppingCriteria {
  times = [];
  _call(all) {
    this.times.push(seconds());
    return all.map(() => false);
  }
}

/** Runs the whole chat; returns the seconds of each turn's prompt and answer. */
async function chat({ folder, way, tokens, budget, turns, answer, threads }) {
  const { model: plain, tokenizer, source } = await loaded(folder, { threads }),
    text = await heldOutBook(),
    parts = tokens / turns - answer,
    words = tokenizer.encode(text),
    model =
      way === undefined
        ? plain
        : await withPolicy(plain, { policy: parsePolicy(way), budget, block: parts, source, tokenizer }),
    cache = new DynamicCache(),
    rows = [];
  let ids = [];
  for (let turn = 0; turn < turns; turn++) {
    ids = [...ids, ...words.slice(turn * parts, (turn + 1) * parts)];
    const clock = new Clock(),
      start = seconds(),
      out = await model.generate({
        ...inputsOf(ids),
        past_key_values: cache,
        do_sample: false,
        min_new_tokens: answer,
        max_new_tokens: answer,
        stopping_criteria: clock,
      });
    ids = Array.from(out.data, Number);
    const [first, last] = [clock.times[0], clock.times.at(-1)];
    rows.push({ prompt: first - start, decode: (last - first) / (answer - 1) });
  }
  const held = Object.values(cache).reduce((sum, { size }) => sum + 4 * (size ?? 0), 0);
  return { rows, parts, length: ids.length, bytes: held, peak: process.resourceUsage().maxRSS * 1024 };
}

if (process.send) {
  process.once('message', async (asked) => process.send(await chat(asked), () => process.disconnect()));
} else {
  const { path, policies, out, ...asked } = commandLine(
      {
        tokens: 8192,
        budget: 1024,
        turns: 16,
        answer: 16,
        threads: 1,
        policies: 'taFast(reach=12,slots=16); snapkv',
        out: undefined,
      },
      'a .gguf file or the folder of an ONNX export',
    ),
    { tokens, budget, turns, answer, threads } = asked,
    folder = await onnxFolder(path),
    ways = [undefined, ...policies.split(';').map((way) => way.trim())],
    results = [];
  for (const way of ways) {
    const child = fork(fileURLToPath(import.meta.url));
    child.send({ folder, way, ...asked });
    const [result] = await once(child, 'message');
    await once(child, 'exit');
    results.push(result);
    console.log(way ?? 'alone', JSON.stringify(result));
  }
  const sum = (list, of) => list.reduce((total, row) => total + of(row), 0),
    mib = (bytes) => (bytes / 2 ** 20).toFixed(0),
    last = (rows) => rows.slice(-Math.max(1, turns >> 2)),
    fed = ({ rows, parts }) => (rows.length * parts) / sum(rows, ({ prompt }) => prompt),
    made = (rows) => rows.length / sum(rows, ({ decode }) => decode),
    [alone] = results,
    ratio = (x, of) => `${x.toFixed(1)} (${(x / of).toFixed(2)}x)`;
  const text = `# A chat of ${alone.length.toLocaleString('en')} tokens in transformers.js

${new Date().toISOString().slice(0, 10)}, ${cpus()[0].model.trim()}, ${threads} thread${threads === 1 ? '' : 's'}, Node ${process.version}, ${basename(path)} exported in f32; ${turns} turns of ${alone.parts} tokens of prose and ${answer} of answer, over one cache.
Under a policy ${budget} slots of every layer and KV head stay after each turn. One run; speeds are tokens a second of processor time, beside them the ratio to transformers.js alone.

${table([
  [
    '',
    'tokens/s, feeding',
    'tokens/s, generating',
    'generating in the last quarter',
    'seconds in all',
    'cache at the end, MiB',
    'peak memory of the process, MiB',
  ],
  ...results.map((result, i) => {
    const { rows, bytes, peak } = result;
    return [
      i === 0 ? 'transformers.js alone' : `\`${ways[i]}\``,
      ratio(fed(result), fed(alone)),
      ratio(made(rows), made(alone.rows)),
      ratio(made(last(rows)), made(last(alone.rows))),
      sum(rows, ({ prompt, decode }) => prompt + (answer - 1) * decode).toFixed(0),
      mib(bytes),
      mib(peak),
    ];
  }),
])}

A policy that reads queries (snapkv) has a session of its own: while that is loaded, the weights are in memory more than once.

\`node bench/adapters/transformers-chat.mjs MODEL.gguf --tokens ${tokens} --budget ${budget} --turns ${turns} --answer ${answer} --threads ${threads} --policies '${ways.slice(1).join('; ')}'\`
`;
  console.log(text);
  if (out) writeFileSync(out, text);
}

// @kv/models against node-llama-cpp on the same GGUF and the same prompt, turn by turn on one machine.
//   npm run bench -- peers/llama-cpp.mjs MODEL.gguf [--turns 3] [--threads N] [--text FILE] [--peer FOLDER] [--pause 0]
//     [--tokens 512,1024 [--budget 512]] [--cache q8] [--out peers] [--without-amx]
// --tokens replaces the four rows by these lengths, with the full cache and, if given, with --budget.
// --cache stores the caches of both engines so: f16, q8 or q4; without it each does as it does by default.
// --without-amx removes the peer's AMX kernels, as on a processor without such units.
// Turns are --pause seconds apart, for a shared machine.
// FILE is any prose of 4,097 tokens, by default the book of @kv/tasks.
// The peer is no dependency: it is installed, without install scripts, into --peer (a folder in the temporary directory
// by default). Each engine lives in its own process, which sleeps while the other one works.
// Writes bench/results/peers.json and peers.md, or files of the name --out.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { heldOutBook } from '@kv/tasks';
import { commandLine } from '../lib/command-line.mjs';
import { peerFolder, version, worker } from './processes.mjs';
import { report } from './table.mjs';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const { path, turns, pause, out, ...asked } = commandLine(
  {
    turns: 3,
    threads: availableParallelism(),
    text: undefined,
    peer: undefined,
    pause: 0,
    tokens: undefined,
    budget: undefined,
    cache: undefined,
    out: 'peers',
    'without-amx': false,
  },
  'the path of a .gguf file',
);
if (asked.budget !== undefined && asked.tokens === undefined) throw new Error('expected --tokens beside --budget');
const { threads, cache, 'without-amx': withoutAmx } = asked,
  model = resolve(path);
const text = (asked.text === undefined ? await heldOutBook() : readFileSync(asked.text, 'utf8')).slice(0, 120_000);

const full = (tokens) => ({ name: `${tokens.toLocaleString('en')} tokens`, tokens });
const within = (tokens, budget) => ({ name: `${full(tokens).name}, budget ${budget}`, tokens, budget });
const cases = (asked.tokens ?? '1024,4096')
  .split(',')
  .map(Number)
  .flatMap((tokens) =>
    asked.tokens !== undefined && asked.budget === undefined
      ? [full(tokens)]
      : [full(tokens), within(tokens, Number(asked.budget ?? 512))],
  );
const most = Math.max(...cases.map(({ tokens }) => tokens)),
  ours = worker('ours.mjs', { model, threads, cache, onnx: false }),
  peer = worker('node-llama-cpp.mjs', { model, threads, cache, most, folder: peerFolder(asked) });
const ids = await ours.ask({ encode: text, count: most + 1 });
if (ids.length <= most) throw new Error(`expected a text of ${most + 1} tokens, got ${ids.length}`);

// Warm up, and agreement: logits of 16 places of a prompt of 256.
const places = Array.from({ length: 16 }, (_, i) => 240 + i),
  prompt = ids.slice(0, 256);
const [a, b] = [await ours.ask({ logits: prompt, places }), await peer.ask({ logits: prompt, places })];
const exact = worker('ours.mjs', { model, threads, onnx: true }),
  c = await exact.ask({ logits: prompt, places });
exact.end();
const best = (row) => row.reduce((top, x, i) => (x > row[top] ? i : top), 0);
const agreement = (p, q) => ({
  relative: Math.max(
    ...p.map(
      (row, r) =>
        row.reduce((most, x, i) => Math.max(most, Math.abs(x - q[r][i])), 0) /
        row.reduce((most, x) => Math.max(most, Math.abs(x)), 0),
    ),
  ),
  top1: p.filter((row, r) => best(row) === best(q[r])).length / p.length,
});
const logits = {
  'ours as timed, and in f32': agreement(c, a),
  'the peer, and ours in f32': agreement(c, b),
  'ours as timed, and the peer': agreement(b, a),
};

const results = cases.map(() => ({ ours: [], peer: [] }));
for (let turn = 0; turn < turns; turn++) {
  if (turn > 0) await sleep(1000 * pause);
  for (const [i, { tokens, budget }] of cases.entries())
    for (const [name, engine] of turn % 2 === 0
      ? [
          ['ours', ours],
          ['peer', peer],
        ]
      : [
          ['peer', peer],
          ['ours', ours],
        ]) {
      // the peer has no budget: it runs the whole context, once for both rows
      if (name === 'peer' && budget !== undefined)
        results[i].peer.push(
          results.find((_, j) => cases[j].tokens === tokens && cases[j].budget === undefined).peer[turn],
        );
      else results[i][name].push(await engine.ask({ run: ids.slice(0, tokens), budget, decode: 48 }));
    }
}
const engine = await ours.ask({ name: true }),
  memory = { ours: await ours.ask({ memory: true }), peer: await peer.ask({ memory: true }) };
ours.end();
peer.end();
const info = {
  date: new Date().toISOString().slice(0, 10),
  cpu: cpus()[0].model,
  cores: availableParallelism(),
  node: process.version,
  threads,
  turns,
  command: `npm run bench -- peers/llama-cpp.mjs ${path.split(/[\\/]/).at(-1)} ${process.argv.slice(3).join(' ')}`,
  engine,
  ...(cache && { cache }),
  memory,
  file: path.split(/[\\/]/).at(-1),
  peer: `node-llama-cpp ${version}${withoutAmx ? ' without its AMX kernels' : ''}`,
};
const page = report(info, cases, results, logits);
mkdirSync(here('../results'), { recursive: true });
writeFileSync(
  here(`../results/${out}.json`),
  `${JSON.stringify({ info, logits, cases: cases.map((one, i) => ({ ...one, ...results[i] })) }, null, 1)}\n`,
);
writeFileSync(here(`../results/${out}.md`), page);
console.log(page);
process.exit(0);

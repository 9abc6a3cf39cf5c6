/**
 * Tokens a second of all clients together, by number of clients: the server over its protocol and, with --peer,
 * node-llama-cpp with the same number of sequences in one context. Different prompts of one length, greedy, one run, in
 * turns; medians of the turns, spread in brackets. Prompts are read before the time starts, which is measured from the
 * last client's first token to the first client's last one.
 *
 *   npm run bench serve        or, once built:
 *   node bench/serve.bench.mjs --model MODEL.gguf --prompt 256,1024 --tokens 128 --clients 1,2,4,8 --turns 3 \
 *     [--policy snapkv --budget 25%] [--peer FOLDER] [--threads N]
 *
 * FOLDER is where peers/llama-cpp.mjs installed node-llama-cpp.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { loadModel } from '@kv/models';
import { catalogue } from '@kv/policies';
import { createServer } from '@kv/server';
import { commandLine } from './lib/command-line.mjs';
import { median, spread } from './lib/spread.mjs';

const {
  prompt: prompts,
  clients,
  tokens,
  turns,
  policy,
  budget,
  ...asked
} = commandLine({
  model: 'embedded',
  prompt: [256],
  tokens: 64,
  clients: [1, 2, 4, 8],
  turns: 3,
  policy: undefined,
  budget: undefined,
  peer: undefined,
  threads: availableParallelism(),
});

const model = await loadModel(asked.model);
// no end token ends an answer, so every client gets the same number of tokens
const endless = { ...model, config: { ...model.config, eosIds: [] } };
const server = createServer({
  model: endless,
  name: 'model',
  memory: 4 * 2 ** 30,
  registry: catalogue,
  limits: { part: 256 },
  log: { write() {} },
});
const url = await server.listen({ port: 0 });
const promptOf = (length, n, seed) =>
  Array.from({ length }, (_, i) => 3 + ((i * 31 + 7 * n + seed) % (model.config.vocab - 3)));

/**
 * Measures tokens a second while all clients are answered. `said` is called at each client's first token and at its
 * end.
 */
function stretch(count) {
  let [begun, from, made, ended] = [0, 0, 0, undefined];
  return {
    first(total) {
      if (++begun === count) [from, made] = [performance.now(), total];
    },
    last(total) {
      ended ??= (1000 * (total - made)) / (performance.now() - from);
    },
    get speed() {
      return ended;
    },
  };
}

/** Returns the number of tokens that the server has generated, including answers in progress. */
const generated = async () => {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^kv_step_sequences_sum (\S+)/m.exec(text)?.[1] ?? 0);
};

async function ours(count, length, seed) {
  const time = stretch(count);
  const client = async (n) => {
    const answer = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        prompt: promptOf(length, n, seed),
        max_tokens: tokens,
        temperature: 0,
        stream: true,
        ...(policy && { policy, ...(budget && { budget: budget.endsWith('%') ? budget : Number(budget) }) }),
      }),
    });
    let begun = false;
    for await (const _ of answer.body) {
      if (!begun) time.first(await generated());
      begun = true;
    }
    time.last(await generated());
  };
  await Promise.all(Array.from({ length: count }, (_, n) => client(n)));
  return time.speed;
}

/** Starts the peer's process, which sleeps between requests. */
function peerIn(folder) {
  const { threads } = asked,
    child = fork(fileURLToPath(new URL('peers/node-llama-cpp-together.mjs', import.meta.url)), [
      JSON.stringify({
        model: asked.model,
        threads,
        folder,
        sequences: Math.max(...clients),
        most: Math.max(...prompts) + tokens,
      }),
    ]);
  return {
    speed: async (count, length, seed) => {
      child.send({ prompts: Array.from({ length: count }, (_, n) => promptOf(length, n, seed)), tokens });
      const [speed] = await once(child, 'message');
      return speed;
    },
    end: () => child.kill(),
  };
}

const peer = asked.peer === undefined ? undefined : peerIn(asked.peer),
  engines = [['kv serve', ours], ...(peer ? [['node-llama-cpp', peer.speed]] : [])];
console.log(
  `${model.name} on ${model.engine}, ${tokens} tokens each, ${policy ?? 'full'}${budget ? ` ${budget}` : ''}, Node ${process.versions.node}`,
);
for (const length of prompts) {
  for (const [, speed] of engines) await speed(1, 32, 99); // warm
  const speeds = new Map(engines.map(([name]) => [name, new Map(clients.map((count) => [count, []]))]));
  for (let t = 0; t < turns; t++)
    for (const count of clients)
      for (const [name, speed] of engines)
        speeds
          .get(name)
          .get(count)
          .push(await speed(count, length, 1000 * t + 50 * count));
  for (const [name, all] of speeds) {
    const alone = median(all.get(clients[0]));
    for (const [count, each] of all)
      console.log(
        `${name}, prompt ${length}, ${count} client${count === 1 ? '' : 's'}: ${spread(each, 1)} tokens/s, ratio ${(median(each) / alone).toFixed(2)}`,
      );
  }
}
peer?.end();
await server.close(0);
model.destroy();

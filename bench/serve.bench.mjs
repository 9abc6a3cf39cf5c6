/**
 * Tokens a second of all clients together, by how many there are, over the server's own protocol: the same prompt length
 * for each, greedy, one run, turns of 1, 2, 4 and 8 clients; medians of the turns, spread in brackets.
 *
 *   npm run bench serve        or, once built:
 *   node bench/serve.bench.mjs --model MODEL --prompt 256,1024 --tokens 128 --clients 1,2,4,8 --turns 3 --policy 'snapkv' --budget 25%
 */
import { hostRuntime, loadModel } from '@kv/models';
import { linearEngine, simdLinear } from '@kv/models/engine';
import { catalogue } from '@kv/policies';
import { createServer } from '@kv/server';

const option = (name, fallback) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? fallback : process.argv[at + 1];
};
const numbers = (name, fallback) => option(name, fallback).split(',').map(Number);
const prompts = numbers('prompt', '256'),
  clients = numbers('clients', '1,2,4,8'),
  [tokens] = numbers('tokens', '64'),
  [turns] = numbers('turns', '3'),
  policy = option('policy'),
  budget = option('budget');

const model = await loadModel(option('model', 'embedded'), {
  runtime: hostRuntime({ engine: linearEngine(simdLinear()) }),
});
// no end of a text ends an answer, so that every client gets as many tokens
const endless = { ...model, config: { ...model.config, eosIds: [] } };
const server = createServer({
  model: endless,
  name: 'model',
  memory: 4 * 2 ** 30,
  registry: catalogue,
  log: { write() {} },
});
const url = await server.listen({ port: 0 });

/** Milliseconds from the first token of the last client to the last token, all clients together, and tokens in them. */
async function turn(count, length, seed) {
  const times = [];
  const client = async (n) => {
    const prompt = Array.from({ length }, (_, i) => 3 + ((i * 31 + 7 * n + seed) % (model.config.vocab - 3)));
    const answer = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        prompt,
        max_tokens: tokens,
        temperature: 0,
        stream: true,
        logprobs: 0, // so that each token is an event of its own
        ...(policy && { policy, ...(budget && { budget: budget.endsWith('%') ? budget : Number(budget) }) }),
      }),
    });
    const own = [];
    let rest = '';
    for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
      rest += chunk;
      const frames = rest.split('\n\n');
      rest = frames.pop();
      for (const _ of frames) own.push(performance.now());
    }
    times.push(own.slice(0, tokens));
  };
  await Promise.all(Array.from({ length: count }, (_, n) => client(n)));
  const from = Math.max(...times.map(([first]) => first)),
    to = Math.min(...times.map((own) => own.at(-1))),
    during = times.flat().filter((at) => at > from && at <= to).length;
  return (1000 * during) / (to - from);
}

const median = (all) => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)];
console.log(
  `${model.name} on ${model.engine}, ${tokens} tokens each, ${policy ?? 'full'}${budget ? ` ${budget}` : ''}`,
);
for (const length of prompts) {
  await turn(1, 32, 99); // warm
  const speeds = new Map(clients.map((count) => [count, []]));
  for (let t = 0; t < turns; t++)
    for (const count of clients) speeds.get(count).push(await turn(count, length, 1000 * t + 50 * count));
  const alone = median(speeds.get(clients[0]));
  for (const [count, all] of speeds)
    console.log(
      `prompt ${length}, ${count} client${count === 1 ? '' : 's'}: ${median(all).toFixed(1)} tokens/s [${Math.min(...all).toFixed(1)}, ${Math.max(...all).toFixed(1)}], ratio ${(median(all) / alone).toFixed(2)}`,
    );
}
await server.close(0);

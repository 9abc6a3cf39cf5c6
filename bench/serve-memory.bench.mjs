/**
 * How many simultaneous answers fit one memory budget, under the full cache and under a policy: the given number of
 * clients arrive together with different prompts, the server admits what it can promise, and the others wait. Counts
 * the most answers in progress, the peak of bytes promised and held, and tokens a second of all together.
 *
 *   npm run bench serve-memory        or, once built:
 *   node bench/serve-memory.bench.mjs --model MODEL --prompt 600 --tokens 32 --clients 24 --memory 32 --policy 'snapkv(window=16)' \
 *     --budget 25% --block 128 --every 16        (memory in MiB)
 */
import { loadModel } from '@kv/models';
import { catalogue, parsePolicy } from '@kv/policies';
import { createServer } from '@kv/server';
import { commandLine } from './lib/command-line.mjs';

const {
  model: source,
  prompt: length,
  tokens,
  clients,
  memory,
  policy,
  budget,
  block,
  every,
} = commandLine({
  model: 'embedded',
  prompt: 600,
  tokens: 32,
  clients: 24,
  memory: 32,
  policy: 'snapkv(window=16)',
  budget: '25%',
  block: 128,
  every: 16,
});

const model = await loadModel(source);
// no end token ends an answer, so every client gets the same number of tokens
const endless = { ...model, config: { ...model.config, eosIds: [] } };

async function carried(options) {
  const server = createServer({
    model: endless,
    name: 'model',
    memory: memory * 2 ** 20,
    registry: catalogue,
    limits: { queue: clients, running: clients },
    log: { write() {} },
    ...options,
  });
  const url = await server.listen({ port: 0 });
  let [most, held] = [0, 0];
  const watch = setInterval(() => {
    most = Math.max(most, server.prompts.answering);
    held = Math.max(held, server.memory.sequences + server.memory.conversations + server.memory.scratch);
  }, 1);
  const started = performance.now(),
    statuses = await Promise.all(
      Array.from({ length: clients }, async (_, n) => {
        const answer = await fetch(`${url}/v1/completions`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({
            prompt: Array.from({ length }, (_, i) => 3 + ((i * 31 + 7 * n) % (model.config.vocab - 3))),
            max_tokens: tokens,
            temperature: 0,
          }),
        });
        await answer.text();
        return answer.status;
      }),
    ),
    seconds = (performance.now() - started) / 1000;
  clearInterval(watch);
  const { peak } = server.memory;
  await server.close(0);
  if (statuses.some((status) => status !== 200)) throw new Error(`expected 200 of all, got ${statuses.join(' ')}`);
  return { most, peak, held, speed: (clients * tokens) / seconds };
}

const mib = (bytes) => (bytes / 2 ** 20).toFixed(1);
console.log(
  `${model.name} on ${model.engine}: ${clients} clients with prompts of ${length} and ${tokens} tokens out, ${memory} MiB`,
);
const rows = [
  ['full cache', {}],
  [
    `${policy}, ${budget}, block ${block}, an event every ${every} tokens`,
    {
      policy: parsePolicy(policy),
      budget: budget.endsWith('%') ? budget : Number(budget),
      ...{ block, every },
    },
  ],
];
for (const [name, options] of rows) {
  const { most, peak, held, speed } = await carried(options);
  console.log(
    `${name}: at most ${most} answers at once, ${mib(peak)} MiB promised, ${mib(held)} MiB held, ${speed.toFixed(1)} tokens/s in all, prompts included`,
  );
}
model.destroy();

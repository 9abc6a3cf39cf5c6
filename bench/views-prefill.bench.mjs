import { commonHeads } from '@kv/engine';
/**
 * A prompt, and tokens after it, under policies that hide or freeze parts of it and under hooks that do nothing, against
 * the full cache, in turns: wall and processor time, and for a prompt the ratio of multiply-adds.
 *
 *   npm run bench -- views-prefill.bench.mjs MODEL.gguf --tokens 4096 --turns 5 --decode 40
 *
 * On a busy machine `--threads 1`, and the processor time: threads that wait for each other spin.
 */
import { compose, hide, id, onStep } from '@kv/core';
import { cpuRuntime, loadModel, Sequence } from '@kv/models';
import { policy } from '@kv/policies';
import { heldOutBook } from '@kv/tasks';
import { commandLine } from './lib/command-line.mjs';
import { median, spread } from './lib/spread.mjs';

const { path, tokens, turns, decode, threads } = commandLine(
  { tokens: [1024, 4096], turns: 5, decode: 40, threads: 0 },
  'the GGUF file of a model',
);
const model = await loadModel(path, threads > 0 ? { runtime: cpuRuntime({ threads }) } : {}),
  { layers, hidden, ffn, vocab, attention } = model.config,
  { queryHeads, kvHeads, headDim } = commonHeads(model.config);

/** The share of a prompt that PSAW's windows pass over, or ETF freezes, in a layer: PrHS, eq. 15 and 16. */
const reach = (layer, base) => {
  const start = Math.floor((3 * layers) / 4);
  return 1 - base ** (Math.max(0, layer + 1 - start) / (layers - start));
};
const sinks = 4;
/** Multiply-adds of a prompt of n tokens, of which PSAW hides and ETF freezes some. */
function multiplyAdds(n, { phi = 1, psi = 1 } = {}) {
  const project = hidden * headDim,
    whole = project * (2 * queryHeads + 2 * kvHeads) + 3 * hidden * ffn;
  let sum = hidden * vocab;
  for (let l = 0; l < layers; l++) {
    const below = Math.min(n - 1, Math.floor(reach(l, psi) * n)),
      window = attention.windows[l] ?? Infinity;
    for (let t = 0; t < n; t++) {
      if (t >= sinks && t < below) {
        sum += project * 2 * kvHeads; // its keys and values
        continue;
      }
      const first = Math.max(0, t - window + 1),
        lower = Math.max(first, Math.floor(reach(l, phi) * t)),
        hiddenSlots = Math.max(0, lower - Math.max(first, sinks));
      sum += whole + 2 * queryHeads * headDim * (t + 1 - first - hiddenSlots);
    }
  }
  return sum;
}

const cases = [
  { name: 'full cache' },
  { name: 'psaw(phi=0.5)', policy: policy('psaw(phi=0.5)'), bases: { phi: 0.5 } },
  { name: 'etf(psi=0.5)', policy: policy('etf(psi=0.5)'), bases: { psi: 0.5 } },
  {
    name: 'psaw(phi=0.5) ∘ etf(psi=0.5)',
    policy: policy('psaw(phi=0.5) ∘ etf(psi=0.5)'),
    bases: { phi: 0.5, psi: 0.5 },
  },
  { name: 'a view that hides nothing', policy: compose(id, hide('nothing', { during: 'both' }, () => ({}))()) },
  { name: 'a step hook that does nothing', policy: compose(id, onStep('nothing', {}, () => ({}))()) },
];
const book = model.tokenizer.encode(await heldOutBook()).ids;

/** Runs each case in turn, once to warm up and then `turns` times; returns the times of each in milliseconds. */
async function inTurns(count, run) {
  const times = cases.map(() => []);
  for (let turn = -1; turn < count; turn++)
    for (const [i, one] of cases.entries()) {
      const before = process.cpuUsage(),
        started = performance.now();
      await run(one, turn + 1);
      const wall = performance.now() - started,
        { user, system } = process.cpuUsage(before);
      if (turn >= 0) times[i].push({ wall, processor: (user + system) / 1000 });
    }
  return times;
}

/** Prints a line for each case: its times against the first one's. */
function print(length, what, times, predicted = () => '') {
  for (const [i, { name, bases }] of cases.entries()) {
    const ratio = (of) => times[i].map((time, k) => time[of] / times[0][k][of]),
      lowest = (each) => Math.min(...each.map(({ processor }) => processor));
    console.log(
      `| ${length} | ${what} | \`${name}\` | ${median(times[i].map(({ wall }) => wall)).toFixed(1)} | ${spread(ratio('wall'))} | ${spread(ratio('processor'))} | ${(lowest(times[i]) / lowest(times[0])).toFixed(3)} | ${predicted(bases)} |`,
    );
  }
}

console.log(`${model.engine}, Node ${process.version}, ${turns} turns: median (lowest-highest)\n`);
console.log(
  '| tokens | time of | policy | wall ms | wall / full | processor / full | lowest processor / full | multiply-adds / full |',
);
console.log('| --- | --- | --- | --- | --- | --- | --- | --- |');
for (const length of tokens) {
  const prompt = book.slice(0, length),
    full = multiplyAdds(length),
    sequences = [];
  const prefill = await inTurns(turns, async ({ policy }, turn) => {
    const sequence = new Sequence(model);
    await sequence.prefill(prompt, policy && { policy });
    if (turn === turns) sequences.push(sequence);
    else sequence.destroy();
  });
  print(length, 'the prompt', prefill, (bases) => (multiplyAdds(length, bases) / full).toFixed(3));
  if (decode > 0)
    print(
      length,
      'a token',
      await inTurns(decode, ({ name }, turn) =>
        sequences[cases.findIndex((one) => one.name === name)].step(book[length + turn]),
      ),
    );
  for (const sequence of sequences) sequence.destroy();
}
model.destroy();

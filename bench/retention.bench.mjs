/**
 * The cost and the savings of retention on the embedded model: score + select + compact as a share of prefill, prefill
 * and decode speed and cache bytes of each policy against the full cache, in one run, as ratios with their spread.
 *
 *   npm run bench retention        or, once built:   node bench/retention.bench.mjs --rounds 5 --tokens 1024
 */
import { generate, loadModel } from '@kv/models';
import { policy } from '@kv/policies';
import { heldOutBook } from '@kv/tasks';
import { commandLine } from './lib/command-line.mjs';
import { median, spread } from './lib/spread.mjs';

const { rounds, tokens: lengths } = commandLine({ rounds: 3, tokens: [1024, 4000] });
const names = ['full', 'streaming', 'knorm', 'snapkv', 'snapkvCaote', 'tova', 'meanAttention', 'taFast'];
const budget = 256,
  maxNewTokens = 48;

const model = await loadModel('embedded');
// 4,000, not 4,096: the answer must fit the model's context too
const all = model.tokenizer.encode(await heldOutBook()).ids;

console.log(
  `embedded model, budget ${budget}, ${maxNewTokens} new tokens, ${rounds} rounds, all policies in turn in each round: median (lowest-highest)`,
);
for (const length of lengths) {
  const ids = all.slice(0, length),
    runs = new Map(names.map((name) => [name, []]));
  for (let round = -1; round < rounds; round++)
    for (const name of names) {
      const { report } = await generate(model, { ids, policy: policy(name), budget, maxNewTokens });
      if (round >= 0) runs.get(name).push(report); // the first round warms up
    }
  const full = runs.get('full');
  console.log(
    `\n${length} tokens: full cache ${spread(
      full.map((r) => (length / r.times.prefill) * 1000),
      0,
    )} prefill tokens/s, ${spread(
      full.map((r) => (r.counts.steps / r.times.decode) * 1000),
      0,
    )} decode tokens/s, ${full[0].bytes.live} bytes live`,
  );
  console.log(
    'policy        event / prefill        prefill speed / full   decode speed / full   live bytes / full   peak bytes / full',
  );
  for (const name of names) {
    const own = runs.get(name),
      ratio = (f) => own.map((r, i) => f(r) / f(full[i]));
    const event = own.map(
      (r) =>
        (r.times.score + r.times.settle + r.times.compact) /
        (r.times.prefill - r.times.score - r.times.settle - r.times.compact),
    );
    console.log(
      `${name.padEnd(13)} ${spread(event, 3).padEnd(22)} ${spread(ratio((r) => 1 / r.times.prefill)).padEnd(22)} ${spread(ratio((r) => r.counts.steps / r.times.decode)).padEnd(21)} ${median(
        ratio((r) => r.bytes.live),
      )
        .toFixed(3)
        .padEnd(19)} ${median(ratio((r) => r.bytes.peak)).toFixed(3)}`,
    );
  }
}

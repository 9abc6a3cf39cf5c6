/**
 * A decoded token under policies that hide slots and evict nothing, against the full cache, in turns: wall and processor
 * time.
 *
 *   npm run bench -- views.bench.mjs MODEL.gguf --tokens 2048,4096 --turns 15
 */
import { loadModel, Sequence } from '@kv/models';
import { policy } from '@kv/policies';
import { heldOutBook } from '@kv/tasks';
import { commandLine } from './lib/command-line.mjs';
import { median, spread } from './lib/spread.mjs';

const { path, tokens, turns } = commandLine({ tokens: [2048, 4096], turns: 15 }, 'the GGUF file of a model'),
  texts = [
    'quest(slots=512)',
    'doubleSparsity(slots=512)',
    'hshare(slots=512)',
    'psaw(phi=0.7)',
    'cpe(budget=512,sinks=16,local=64,phi=1,psi=1)',
  ];
const model = await loadModel(path),
  book = model.tokenizer.encode(await heldOutBook()).ids;
console.log(`${model.engine}, Node ${process.version}, ${turns} turns: median (lowest-highest)\n`);
console.log('| tokens | policy | wall ms | wall / full | processor / full | lowest processor / full |');
console.log('| --- | --- | --- | --- | --- | --- |');
for (const length of tokens) {
  const all = [];
  for (const text of [undefined, ...texts]) {
    const sequence = new Sequence(model);
    await sequence.prefill(book.slice(0, length), text && { policy: policy(text) });
    all.push({ text: text ?? 'full cache', sequence, times: [] });
  }
  for (let turn = -2; turn < turns; turn++)
    for (const { sequence, times } of all) {
      const before = process.cpuUsage(),
        started = performance.now();
      await sequence.step(book[length + turn + 2]);
      const { user, system } = process.cpuUsage(before);
      if (turn >= 0) times.push({ wall: performance.now() - started, processor: (user + system) / 1000 }); // two warm up
    }
  const [full] = all;
  for (const { text, sequence, times } of all) {
    const ratio = (of) => times.map((time, i) => time[of] / full.times[i][of]),
      lowest = (each) => Math.min(...each.map(({ processor }) => processor));
    console.log(
      `| ${length} | \`${text}\` | ${median(times.map(({ wall }) => wall)).toFixed(1)} | ${spread(ratio('wall'))} | ${spread(ratio('processor'))} | ${(lowest(times) / lowest(full.times)).toFixed(2)} |`,
    );
    sequence.destroy();
  }
}
model.destroy();

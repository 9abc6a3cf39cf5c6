/**
 * A decoded token under policies that hide slots and evict nothing, against the full cache, in turns: wall and processor
 * time, what the engine counted, and what hiding cost: the divergence of the next token from the full cache's, and the
 * attention mass that hidden slots would have had.
 *
 *   npm run bench -- views.bench.mjs MODEL.gguf --tokens 2048,4096 --turns 15 [--policies 'quest(slots=512);psaw(phi=0.7)']
 *
 * `--cache f32`: the form that slots are stored in. `--evict 1024`: over caches that SnapKV has cut to 1,024 slots a head; the full cache is then all of these.
 */
import { loadModel, Sequence } from '@kv/models';
import { policy } from '@kv/policies';
import { heldOutBook } from '@kv/tasks';
import { commandLine } from './lib/command-line.mjs';
import { median, spread } from './lib/spread.mjs';

const { path, tokens, turns, evict, cache, policies } = commandLine(
    {
      tokens: [2048, 4096],
      turns: 15,
      evict: 0,
      cache: 'q8',
      policies:
        'quest(slots=512);doubleSparsity(slots=512);hshare(slots=512);psaw(phi=0.7);cpe(budget=512,sinks=16,local=64,phi=1,psi=1)',
    },
    'the GGUF file of a model',
  ),
  texts = policies.split(';');
/** Steps that warm up, and steps whose hidden mass is read. */
const [before, observed] = [12, 4];
const model = await loadModel(path, { cache }),
  book = model.tokenizer.encode(await heldOutBook()).ids;
console.log(`${model.engine}, cache in ${cache}, Node ${process.version}, ${turns} turns: median (lowest-highest)\n`);
console.log(
  '| tokens | policy | wall ms | full / wall | full / processor | slots of full | numbers to choose | KL, nats | hidden mass |',
);
console.log('| --- | --- | --- | --- | --- | --- | --- | --- | --- |');
for (const length of tokens) {
  const all = [];
  for (const text of [undefined, ...texts]) {
    const sequence = new Sequence(model);
    // the newest token's attention is kept, which the hidden mass is read from
    await sequence.prefill(book.slice(0, length), {
      ...(text && { policy: policy(text) }),
      policies: [...(text ? [policy('topKOracle')] : []), ...(evict > 0 ? [policy('snapkv')] : [])],
    });
    if (evict > 0) {
      await sequence.evict('snapkv', evict);
      sequence.decodeUnder(policy(text ?? 'full'));
    }
    all.push({ text: text ?? 'full cache', sequence, times: [], divergences: [], counted: undefined });
  }
  for (let turn = -before; turn < turns; turn++) {
    const token = book[length + turn + before];
    let full;
    for (const each of all) {
      const { sequence, times, divergences } = each;
      if (turn === 0) each.counted = { ...sequence.memory.caches.context.counters };
      const processor = process.cpuUsage(),
        started = performance.now();
      await sequence.step(token);
      const wall = performance.now() - started,
        { user, system } = process.cpuUsage(processor),
        [logits] = await sequence.logits();
      full ??= logits;
      if (turn < 0) continue;
      times.push({ wall, processor: (user + system) / 1000 });
      divergences.push(divergence(full, logits));
    }
  }
  const [full] = all,
    { layers, queryHeads } = model.config;
  for (const { text, sequence, times, divergences, counted } of all) {
    const ratio = (of) => spread(times.map((time, i) => full.times[i][of] / time[of])),
      counters = sequence.memory.caches.context.counters,
      slots = ((counters.shownSlots ?? 0) - (counted.shownSlots ?? 0)) / turns,
      numbers = ((counters.viewReads ?? 0) - (counted.viewReads ?? 0)) / turns,
      hidden = text === 'full cache' ? 0 : await hiddenMass(sequence, length);
    console.log(
      `| ${length} | \`${text}\` | ${median(times.map(({ wall }) => wall)).toFixed(1)} | ${ratio('wall')} | ${ratio('processor')} | ${slots === 0 ? '' : (slots / (layers * queryHeads * ((evict || length) + before + turns / 2))).toFixed(3)} | ${numbers === 0 ? '' : Math.round(numbers)} | ${median(divergences).toPrecision(2)} | ${hidden.toPrecision(2)} |`,
    );
  }
  for (const { sequence } of all) sequence.destroy();
}
model.destroy();

/** KL(p || q) of the tokens that logits predict, in nats. */
function divergence(p, q) {
  const probabilities = (logits) => {
    const most = logits.reduce((a, b) => Math.max(a, b)),
      sum = logits.reduce((all, x) => all + Math.exp(x - most), 0);
    return (i) => logits[i] - most - Math.log(sum);
  };
  const [a, b] = [probabilities(p), probabilities(q)];
  return p.reduce((sum, _, i) => sum + Math.exp(a(i)) * (a(i) - b(i)), 0);
}

/** The mean share of attention that slots hidden from the next tokens would have, over layers and heads. */
async function hiddenMass(sequence, length) {
  const copy = sequence.fork();
  let [sum, rows] = [0, 0];
  copy.memory.caches.observers.show({
    row: ({ at, weights, kept }) => {
      if (at !== 'view') return;
      sum += 1 - kept.reduce((mass, slot) => mass + weights[slot], 0);
      rows++;
    },
  });
  for (let i = 0; i < observed; i++) await copy.step(book[length + turns + before + i]);
  copy.destroy();
  return rows === 0 ? 0 : sum / rows;
}

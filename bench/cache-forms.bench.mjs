/**
 * A cache in each stored form against one of f32, in turns: bytes, a decoded token's wall and processor time, prefill, and
 * what rounding costs: the divergence of the next token, how often the likeliest one is the same, and how many slots
 * policies keep alike.
 *
 *   npm run bench -- cache-forms.bench.mjs MODEL.gguf --tokens 2048,4096 --turns 15 [--forms f16,q8,k8v4,q4]
 *   npm run bench -- cache-forms.bench.mjs MODEL.gguf --windows 6 --exact      what rounding costs
 *   npm run bench -- cache-forms.bench.mjs MODEL.gguf --policies all --exact   what policies keep
 */
import { cpuRuntime, loadModel, Sequence } from '@kv/models';
import { tokenBytes } from '@kv/engine';
import { policy, policyNames } from '@kv/policies';
import { heldOutBook } from '@kv/tasks';
import { commandLine } from './lib/command-line.mjs';
import { median, spread } from './lib/spread.mjs';

const {
  path,
  tokens,
  turns,
  forms: others,
  windows,
  policies,
  exact,
} = commandLine(
  { tokens: [2048, 4096], turns: 15, forms: ['f16', 'q8', 'k8v4', 'q4'], windows: 0, policies: '', exact: false },
  'the GGUF file of a model',
);
const forms = ['f32', ...others],
  /** Steps that warm up; tokens of a window, and those of them that are scored. */
  [before, width, scored] = [6, 512, 256],
  model = await loadModel(path, exact ? { runtime: cpuRuntime({ exact }) } : {}),
  book = model.tokenizer.encode(await heldOutBook()).ids,
  bytes = (form) => tokenBytes(form, model.config);
console.log(`${model.engine}, Node ${process.version}: median (lowest-highest)\n`);
if (windows > 0) await losses();
if (policies) await agreement();
if (windows === 0 && !policies) await speed();
model.destroy();

async function speed() {
  console.log(
    `${turns} turns\n\n| tokens | form | bytes a token | wall ms | f32 / wall | f32 / processor | prefill s | f32 / prefill |`,
  );
  console.log('| --- | --- | --- | --- | --- | --- | --- | --- |');
  for (const length of tokens) {
    const all = [];
    for (const form of forms) {
      const sequence = new Sequence(model, undefined, { cache: form }),
        started = performance.now();
      await sequence.prefill(book.slice(0, length));
      all.push({ form, sequence, prefill: (performance.now() - started) / 1000, times: [] });
    }
    for (let turn = -before; turn < turns; turn++)
      for (const { sequence, times } of all) {
        const processor = process.cpuUsage(),
          started = performance.now();
        await sequence.step(book[length + turn + before]);
        const wall = performance.now() - started,
          { user, system } = process.cpuUsage(processor);
        if (turn >= 0) times.push({ wall, processor: (user + system) / 1000 });
      }
    const [full] = all;
    for (const { form, times, prefill, sequence } of all) {
      const ratio = (of) => spread(times.map((time, i) => full.times[i][of] / time[of]));
      console.log(
        `| ${length} | ${form} | ${bytes(form)} | ${median(times.map(({ wall }) => wall)).toFixed(1)} | ${ratio('wall')} | ${ratio('processor')} | ${prefill.toFixed(2)} | ${(full.prefill / prefill).toFixed(2)} |`,
      );
      sequence.destroy();
    }
  }
}

/** Divergence of the next token over windows of a book: 256 tokens in a block, then one at a time. */
async function losses() {
  console.log(
    `${windows} windows of ${width} tokens, the last ${scored} scored, one token at a time\n\n| form | bytes a token | of f16 | KL, nats a token | nll | same first token |`,
  );
  console.log('| --- | --- | --- | --- | --- | --- |');
  const sums = new Map(forms.map((form) => [form, { kl: 0, nll: 0, same: 0 }]));
  for (let w = 0; w < windows; w++) {
    const ids = book.slice(w * 3000, w * 3000 + width + 1),
      all = [];
    for (const form of forms) {
      const sequence = new Sequence(model, undefined, { cache: form });
      await sequence.prefill(ids.slice(0, width - scored));
      all.push({ form, sequence });
    }
    for (let i = width - scored; i < width; i++) {
      let full;
      for (const { form, sequence } of all) {
        await sequence.step(ids[i]);
        const [logits] = await sequence.logits();
        full ??= logits;
        const sum = sums.get(form);
        sum.kl += divergence(full, logits);
        sum.nll -= logProbability(logits)(ids[i + 1]);
        sum.same += largest(full) === largest(logits) ? 1 : 0;
      }
    }
    for (const { sequence } of all) sequence.destroy();
  }
  const count = windows * scored;
  for (const [form, { kl, nll, same }] of sums)
    console.log(
      `| ${form} | ${bytes(form)} | ${(bytes(form) / bytes('f16')).toFixed(3)} | ${(kl / count).toFixed(4)} | ${(nll / count).toFixed(4)} | ${((100 * same) / count).toFixed(1)} % |`,
    );
}

/** How many of the slots that a policy keeps at 25 % of a prompt it also keeps in another form, by policy. */
async function agreement() {
  const names = policies === 'all' ? [...policyNames] : policies.split(';'),
    ids = book.slice(0, 600);
  console.log(`\nslots kept alike at 25 % of ${ids.length} tokens\n\n| policy | ${others.join(' | ')} |`);
  console.log(`| --- |${others.map(() => ' --- |').join('')}`);
  for (const name of names) {
    let found;
    try {
      found = policy(name);
    } catch {
      continue; // it wants options
    }
    const kept = [];
    for (const form of forms) {
      const sequence = new Sequence(model, undefined, { cache: form });
      try {
        await sequence.prefill(ids, { policy: found, budget: '25%' });
        kept.push(sequence.memory.slots.kept());
      } catch (error) {
        kept.push(error.message);
      }
      sequence.destroy();
    }
    const [full, ...rest] = kept;
    console.log(
      `| \`${name}\` | ${typeof full === 'string' ? full : rest.map((some) => `${(100 * alike(full, some)).toFixed(1)} %`).join(' | ')} |`,
    );
  }
}

function alike(a, b) {
  let [same, all] = [0, 0];
  for (const [l, heads] of a.entries())
    for (const [g, slots] of heads.entries()) {
      const other = new Set(b[l][g]);
      all += slots.length;
      same += slots.filter((slot) => other.has(slot)).length;
    }
  return all === 0 ? 1 : same / all;
}

function logProbability(logits) {
  const most = logits.reduce((a, b) => Math.max(a, b)),
    sum = logits.reduce((all, x) => all + Math.exp(x - most), 0);
  return (i) => logits[i] - most - Math.log(sum);
}

/** KL(p || q) of the tokens that logits predict, in nats. */
function divergence(p, q) {
  const [a, b] = [logProbability(p), logProbability(q)];
  return p.reduce((sum, _, i) => sum + Math.exp(a(i)) * (a(i) - b(i)), 0);
}

function largest(logits) {
  return logits.indexOf(logits.reduce((a, b) => Math.max(a, b)));
}

/**
 * Joint eviction against one-shot CAOTE, FastCAOTE and the weights alone: how far the attention output moves when the
 * chosen set is evicted (eq. 24, exact, a mean over layers and query heads, as a share of the output's length), and the
 * time of the choice, a layer.
 *
 *   npm run bench joint        or, once built:   node bench/joint-eviction.bench.mjs --tokens 512 --budgets 480,256,64
 */
import { compose, scoreTransform, values } from '@kv/core';
import { apply, cpu, readCpu } from '@kv/cpu';
import { loadModel, Sequence } from '@kv/models';
import { h2o, snapkv, tova } from '@kv/scorers-attention';
import { caote, fastCaote } from '@kv/scorers-caote';
import { jointError, jointEviction } from '@kv/selectors-joint-eviction';
import { topK } from '@kv/selectors-top-k';
import { heldOutBook } from '@kv/tasks';
import { commandLine } from './lib/command-line.mjs';

const { tokens, budgets } = commandLine({ tokens: 512, budgets: [480, 256, 64] });
const bases = {
  'h2o accumulated': h2o(),
  'h2o block': h2o({ over: 'block' }),
  tova: tova(),
  snapkv: snapkv({ window: 32 }),
};
const choices = {
  weights: topK(),
  fastCaote: compose(fastCaote(), topK()),
  caote: compose(caote(), topK()),
  jointEviction: jointEviction(),
};

const model = await loadModel('embedded'),
  ids = model.tokenizer.encode(await heldOutBook()).ids.slice(0, tokens);
const { ops } = cpu,
  mean = (xs) => xs.reduce((a, b) => a + b, 0) / xs.length;
/** Returns weights and values of every layer as an event sees them. */
async function layers(base) {
  const found = [],
    sequence = new Sequence(model);
  const copy = (x) => {
    const { data, shape } = readCpu(x);
    return { data: data.slice(), shape };
  };
  const capture = scoreTransform('capture', { needs: [values] }, ({ scores, values: v, at }) => {
    found.push({ scores: copy(scores), values: copy(v), at: { queryHeads: at.queryHeads, kvHeads: at.kvHeads } });
    return scores;
  })();
  // an event runs only if something must be evicted; capture before it is
  await sequence.prefill(ids, { policy: compose(base, capture, topK()), budget: tokens - 1 });
  sequence.destroy();
  return found;
}
function moved({ scores, values: v }, kept) {
  const weights = ops.from(scores),
    held = ops.from(v),
    [slots] = [scores.shape[1]],
    evicted = new Float32Array(kept.length * slots).fill(1);
  kept.forEach((set, g) =>
    set.forEach((i) => {
      evicted[g * slots + i] = 0;
    }),
  );
  const error = readCpu(jointError(ops, weights, held, ops.from({ data: evicted, shape: [kept.length, slots] }))).data;
  const output = ops.matmul(ops.simplex(weights), held),
    length = readCpu(ops.norm(ops.reshape(output, [output.shape[0], 1, output.shape[1]]))).data;
  return mean(Array.from(error, (e, h) => e / length[Math.floor((h * length.length) / error.length)]));
}

console.log(`embedded model, ${tokens} tokens of the held-out book: relative error (ms a layer)`);
console.log(
  `weights          budget ${Object.keys(choices)
    .map((name) => name.padEnd(20))
    .join('')}`,
);
for (const [name, base] of Object.entries(bases)) {
  const found = await layers(base);
  for (const budget of budgets) {
    const cells = Object.values(choices).map((piece) => {
      const errors = [],
        choose = () => found.map((inputs) => apply(piece, { ...inputs, budget }).kept),
        sets = choose(),
        started = performance.now();
      choose(); // again, once compiled
      const ms = (performance.now() - started) / found.length;
      sets.forEach((kept, l) => errors.push(moved(found[l], kept)));
      return `${mean(errors).toFixed(4)} (${ms.toFixed(1)})`.padEnd(20);
    });
    console.log(`${name.padEnd(16)} ${String(budget).padEnd(6)} ${cells.join('')}`);
  }
}

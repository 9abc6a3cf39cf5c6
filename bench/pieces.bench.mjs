/**
 * Score + select of every piece, its signals given, as a ratio to one attention pass over the same cache (one query a
 * query head, on the module's kernels): 4,096 and 32,768 slots of one layer with 2 KV heads of 4 query heads, 64
 * numbers a head, a quarter kept.
 *
 *   npm run bench pieces        or, once built:   node bench/pieces.bench.mjs --slots 4096,32768 --only snapkv,caote
 */
import { compose, entries, lookUp } from '@kv/core';
import { attend, LayerCache, Ledger } from '@kv/engine';
import { catalogue } from '@kv/policies';
import { eventOf, layerOf, signalsOf } from './lib/event.mjs';
import { commandLine } from './lib/command-line.mjs';
import { loadModel } from '@kv/models';

const { slots: lengths, only: names } = commandLine({ slots: [4096, 32_768], only: undefined }),
  only = names?.split(',');
const kvHeads = 2,
  group = 4,
  headDim = 64;
const make = (name) => lookUp(catalogue, name)();
/** What may stand before a piece and after it: the first pair that types admit. */
const BEFORE = [[], ['knorm'], ['random', 'softmax'], ['knorm', 'chunks']],
  AFTER = [[], ['topK'], ['wholeUnits']];

/** A policy around one piece, and the same without it. */
function around(name) {
  const factory = lookUp(catalogue, name);
  const two = [make('knorm'), make('keydiff')];
  const inner = { nothing: [], scorers: two, terms: two.map((scorer) => [1, scorer]), scorer: [make('knorm')] };
  const inside = inner[factory.description.takes];
  if (inside === undefined) return undefined;
  const piece = factory(...inside);
  for (const before of BEFORE)
    for (const after of AFTER)
      try {
        const policy = compose(...before.map(make), piece, ...after.map(make));
        if (policy.to === 'kept' && policy.from.includes('start')) return policy;
      } catch {
        /* types refuse it here */
      }
  return undefined;
}

const now = async (call) => {
  const started = performance.now();
  await call();
  return performance.now() - started;
};
/**
 * Median milliseconds of a call, over half a second and at least 3 calls; a call of more than 2 seconds is made once.
 */
async function time(call) {
  const first = await now(call),
    times = [];
  if (first > 2000) return first;
  for (let spent = 0; times.length < 3 || (spent < 500 && times.length < 200); ) {
    times.push(await now(call));
    spent += times.at(-1);
  }
  return times.sort((a, b) => a - b)[times.length >> 1];
}

const { rowEngine: engine } = (await loadModel('embedded')).decoder; // of the module, where there is one
const scenes = [];
for (const slots of lengths) {
  // one after the other: they are timed
  const layer = layerOf({ slots, kvHeads, group, headDim, budget: slots / 4 }),
    cache = new LayerCache(kvHeads, headDim, new Ledger()),
    positions = Uint32Array.from({ length: slots }, (_, i) => i);
  cache.append(layer.keys, layer.values, positions);
  const q = layer.keys.slice(0, kvHeads * group * headDim),
    pass = () => attend({ q, queryPositions: positions.subarray(-1), cache, engine });
  await time(pass); // until the kernel is compiled
  scenes.push({ layer, pass: await time(pass) });
}
console.log(
  `| piece | measured as | signals | ${lengths.map((n) => `${n.toLocaleString('en')} slots, ms | x attention`).join(' | ')} |\n| --- | --- | --- |${' ---: | ---: |'.repeat(lengths.length)}`,
);
console.log(`| (one attention pass) | | |${scenes.map(({ pass }) => ` ${pass.toFixed(2)} | 1 |`).join('')}`);
for (const { factory } of entries(catalogue)) {
  const { name, from, takes } = factory.description;
  if (from === undefined) continue;
  if (only !== undefined && !only.includes(name)) continue;
  const policy = around(name);
  if (policy === undefined) {
    console.log(
      `| ${name} | no event: ${takes === 'policy' ? 'costs what it shows' : 'beside it'} | | ${' | |'.repeat(lengths.length)}`,
    );
    continue;
  }
  const signals = signalsOf(policy),
    cells = [];
  let ms = 0,
    slots = 1;
  for (const { layer, pass } of signals.some(({ ownPass }) => ownPass) ? [] : scenes) {
    if (ms * (layer.at.slots / slots) ** 2 > 20_000 && ms > 1000) {
      cells.push(' not run | |');
      continue;
    } // half a minute or more where the time goes with the square
    [ms, slots] = [await time(eventOf(policy, layer)), layer.at.slots];
    cells.push(` ${ms.toFixed(2)} | ${(ms / pass).toFixed(1)} |`);
  }
  console.log(
    `| ${name} | ${policy.label} | ${signals.map(({ id, cost, ownPass }) => (ownPass ? `${id}: ${cost === 'artifact' ? 'a file next to the model' : 'a second pass over the model'}` : id)).join(', ')} |${cells.join('') || ' | |'.repeat(lengths.length)}`,
  );
}

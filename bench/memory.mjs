/**
 * Peak memory of one event at 131,072 slots, to show that no n x n matrix is made. Prints one line of JSON for the
 * named policies and pieces, or for all that need no extra pass.
 *
 *   node bench/memory.mjs --slots 131072 --only knorm,snapkv
 */
import { entries } from '@kv/core';
import { catalogue, parsePolicy, policy as policyOf, policyNames } from '@kv/policies';
import { eventOf, layerOf, signalsOf } from './lib/event.mjs';
import { commandLine } from './lib/command-line.mjs';

const { slots, only: names } = commandLine({ slots: 131_072, only: policyNames });
const before = process.resourceUsage().maxRSS / 1024;
const layer = layerOf({ slots, kvHeads: 1, group: 2, headDim: 8, budget: 1024 });
/** Joint eviction examines every slot for each evicted one, so only 32 are evicted. */
const almost = { ...layer, at: { ...layer.at, budget: slots - 32 } };
const kept = {};
for (const name of names) {
  const wide = entries(catalogue).some(
    ({ factory: { description } }) => description.name === name && description.options.window?.default > 1024,
  );
  const policy = catalogue.has(name) ? policyOf(name, wide ? { window: slots } : undefined) : parsePolicy(name);
  if (policy.to !== 'kept' || signalsOf(policy).some(({ ownPass }) => ownPass)) continue;
  const started = performance.now();
  kept[policy.label] = [
    (await eventOf(policy, name === 'h2oJoint' ? almost : layer)()).kept[0][0].length,
    Math.round(performance.now() - started),
    Math.round(process.resourceUsage().maxRSS / 1024),
  ];
}
console.log(
  JSON.stringify({
    slots,
    beforeMiB: Math.round(before),
    peakMiB: Math.round(process.resourceUsage().maxRSS / 1024),
    kept,
  }),
);

/** An engine of one's own: plain arrays in, kept slots and compacted arrays out. No model, no other package. */
import { compose } from '@kv/core';
import { retain } from '@kv/cpu';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';

const [layers, queryHeads, kvHeads, slots, headDim, window] = [2, 4, 2, 12, 8, 4];
const numbers = (rows, seed) => Float32Array.from({ length: rows * slots * headDim }, (_, i) => Math.sin(i * seed));

const host = Array.from({ length: layers }, (_, layer) => ({
  keys: { data: numbers(kvHeads, 0.7 + layer), shape: [kvHeads, slots, headDim] },
  values: { data: numbers(kvHeads, 1.3 + layer), shape: [kvHeads, slots, headDim] },
  queries: {
    data: numbers(queryHeads, 0.3 + layer).slice(0, queryHeads * window * headDim),
    shape: [queryHeads, window, headDim],
  },
}));

const policy = compose(snapkv({ window }), topK());
const kept = await retain(policy, { layers: host, queryHeads }, { budget: 5 });
for (let layer = 0; layer < layers; layer++) {
  host[layer] = {
    keys: kept.compact(layer, host[layer].keys),
    values: kept.compact(layer, host[layer].values),
  };
  console.log(`layer ${layer}: ${kept.positions[layer].map((head) => [...head].join(' ')).join(' | ')}`);
}
console.log(`${kept.label}: ${host[0].keys.shape.join(' x ')} keys a layer`);

// prints:
// layer 0: 4 8 9 10 11 | 5 8 9 10 11
// layer 1: 4 8 9 10 11 | 5 8 9 10 11
// snapkv(window=4) ∘ topK: 2 x 5 x 8 keys a layer

/** A piece of one's own, its laws, and a policy that nests it. */
import { compose, number, sum, values, weightScorer } from '@kv/core';
import { apply } from '@kv/cpu';
import { each, scorerLaws } from '@kv/laws';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';

/** |v| + more: tokens with long value vectors stay. */
const size = weightScorer(
  'size',
  {
    source: 'this example',
    says: 'Tokens with long value vectors stay.',
    options: { more: number(0, 'Added to every length.', { least: 0 }) },
    needs: [values],
  },
  ({ ops, values: v }, { more }) => ops.add(ops.norm(v), more),
);

let [held, broken] = [0, ''];
each(scorerLaws(size({ more: 0.5 })), (law, check) => {
  try {
    check();
    held++;
  } catch (error) {
    broken += `${law}: ${error.message}\n`;
  }
});
console.log(broken || `${held} laws hold`);

const policy = compose(sum(size(), snapkv({ window: 2 })), topK());
console.log(policy.label);
const v = { data: [3, 4, 0, 0, 1, 0], shape: [1, 3, 2] }; // one KV head, three tokens, two channels
console.log(apply(size({ more: 0.5 }), { values: v }).scores.data);

// prints:
// 8 laws hold
// sum(size,snapkv(window=2)) ∘ topK
// Float32Array(3) [ 5.5, 0.5, 1.5 ]

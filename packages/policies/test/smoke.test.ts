import { expect, test } from 'vitest';
import { apply, compose } from '@kv/core';
import { snapkv } from '@kv/scorers-attention';
import { caote } from '@kv/scorers-caote';
import { pyramidal } from '@kv/allocators-pyramidal';
import { topK } from '@kv/selectors-top-k';
test('smoke', () => {
  const policy = compose(snapkv({ window: 2, kernel: 3 }), caote(), pyramidal(), topK());
  expect(policy.label).toBe('snapkv(window=2,kernel=3) ∘ caote ∘ pyramidal ∘ topK');
  const out = apply(policy, { attention: [[0.1, 0.2, 0.3, 0.2, 0.2], [0.5, 0.1, 0.1, 0.1, 0.2]], values: { data: Float32Array.from({ length: 10 }, (_, i) => Math.sin(i)), shape: [1, 5, 2] }, budget: 3 });
  console.log(out);
  const x = apply(caote(), { scores: [[0.1, 0.2, 0.7]], values: { data: Float32Array.of(1, 0, 0, 1, 1, 1), shape: [1, 3, 2] } });
  console.log(x.scores);
  // @ts-expect-error
  expect(() => compose(topK(), snapkv())).toThrow('scorers come first');
});

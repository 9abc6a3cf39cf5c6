import { compose, keys, onCompact, perModel, weigher } from '@kv/core';
import { topK } from '@kv/selectors-top-k';
import { expect, test } from 'vitest';
import { loadModel, Sequence } from '../src/index.ts';

/** Holds the thread longer than an event may without giving way. */
function hold(): void {
  const started = performance.now();
  while (performance.now() - started < 25);
}
const slow = weigher('slow', { needs: [keys] }, ({ ops, keys: k }) => {
  hold();
  return ops.norm(k);
});
const slowly = onCompact('slowly', {}, () => {
  hold();
  return {};
});

test.each([
  ['every step of a layer', compose(slow(), topK())],
  ['every layer, behind which one step reaches over the model', compose(slow(), perModel(), topK())],
  ['every hook of a layer', compose(slow(), slowly(), topK())],
])('the event loop turns after %s', async (_, policy) => {
  const model = await loadModel('embedded'),
    sequence = new Sequence(model),
    { layers } = model.config,
    slowOnes = policy.atoms.filter(({ label }) => label.startsWith('slow')).length;
  await sequence.prefill([1, 2, 3, 4, 5, 6, 7, 8], { policies: [policy] });
  let turns = 0,
    done = false;
  const turn = (): void => {
    turns++;
    if (!done) setImmediate(turn);
  };
  setImmediate(turn);
  await sequence.evict(policy, 4);
  done = true;
  expect(turns).toBeGreaterThanOrEqual(slowOnes * layers - 1);
  for (const each of [sequence, model]) each.destroy();
});

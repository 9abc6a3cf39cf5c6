import { compose, kernel, keys, onCompact, perModel, weightScorer } from '@kv/core';
import type { Signal } from '@kv/core';
import { topK } from '@kv/selectors-top-k';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createPrefixStore, loadModel, Sequence } from '../src/index.ts';

/** Blocks the thread for longer than an event may without yielding. */
function hold(): void {
  const started = performance.now();
  while (performance.now() - started < 35);
}
/** Returns how often the event loop turns during `run`. */
async function counted(run: () => Promise<unknown>): Promise<number> {
  let turns = 0,
    done = false;
  const turn = (): void => {
    turns++;
    if (!done) setImmediate(turn);
  };
  setImmediate(turn);
  await run();
  done = true;
  return turns;
}
const slow = weightScorer('slow', { needs: [keys] }, ({ ops, keys: k }) => {
  hold();
  return ops.norm(k);
});
const slowly = onCompact('slowly', {}, () => {
  hold();
  return {};
});

test.each([
  ['every step of a layer', compose(slow(), topK())],
  ['every layer, followed by a step that reaches over the model', compose(slow(), perModel(), topK())],
  ['every hook of a layer', compose(slow(), slowly(), topK())],
])('the event loop turns after %s', async (_, policy) => {
  const model = await loadModel('embedded'),
    sequence = new Sequence(model),
    { layers } = model.config,
    slowOnes = policy.atoms.filter(({ label }) => label.startsWith('slow')).length;
  await sequence.prefill([1, 2, 3, 4, 5, 6, 7, 8], { policies: [policy] });
  const turns = await counted(() => sequence.evict(policy, 4));
  expect(turns).toBeGreaterThanOrEqual(slowOnes * layers - 1);
  for (const each of [sequence, model]) each.destroy();
});

test('the event loop turns between the layers of a pass that a signal asks for, without a signal to abort', async () => {
  const model = await loadModel('embedded'),
    { project } = model.decoder,
    asked: Signal<'asked'> = {
      id: 'asked',
      as: 'asked',
      cost: 'pass',
      provide: (engine, layer) => engine.observeMax(engine.ids, layer),
    },
    policy = compose(weightScorer('seen', { needs: [asked] }, ({ asked: most }) => most)(), topK()),
    sequence = new Sequence(model);
  await sequence.prefill([1, 2, 3, 4, 5, 6, 7, 8], { policies: [policy] });
  Object.assign(model.decoder, {
    project(...of: Parameters<typeof project>) {
      hold();
      return project.apply(model.decoder, of);
    },
  });
  const turns = await counted(() => sequence.evict(policy, 4));
  expect(turns).toBeGreaterThanOrEqual(model.config.layers - 1);
  for (const each of [sequence, model]) each.destroy();
});

describe('a piece that states more operations than may be done at once', () => {
  const squares = kernel({
    id: 'squares',
    inputs: { x: 'f32' },
    ragged: 'x',
    output: { shape: ({ x }) => x },
    wgsl: '',
    operations: ({ x: { shape } }) => shape[1] ** 2,
    ref: ({ x }, _, out) => out.set(x.data.map((value) => value * value)),
  });
  const squared = weightScorer('squared', { needs: [keys] }, ({ ops, keys: k }) =>
    ops.kernel(squares, { x: ops.norm(k) }),
  );
  test('is refused before anything changes, whatever the limit', async () => {
    const model = await loadModel('embedded'),
      policy = compose(squared(), topK());
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 2, max: 40 }),
        fc.integer({ min: 1, max: 1600 }),
        async (n, mostOperations) => {
          const sequence = new Sequence(model, undefined, { mostOperations }),
            ids = Array.from({ length: n }, (_, i) => i);
          await sequence.prefill(ids, { policies: [policy] });
          const run = sequence.evict(policy, 1);
          if (n * n <= mostOperations) await run;
          else
            await expect(run).rejects.toThrow(
              `squared, layer 0: ops.kernel: expected at most ${mostOperations} operations at once, got ${n * n} for 'squares'`,
            );
          expect(sequence.kept()[0][0]).toHaveLength(n * n <= mostOperations ? 1 : n);
          const fork = sequence.fork(); // with the same limit
          await fork.append(ids);
          const again = fork.evict(policy, 1),
            slots = fork.kept()[0][0].length;
          await (slots * slots <= mostOperations ? again : expect(again).rejects.toThrow('operations at once'));
          for (const each of [sequence, fork]) each.destroy();
        },
      ),
      { numRuns: 30 },
    );
    const store = createPrefixStore(model, { maxBytes: 1e8, mostOperations: 9 });
    await store.add([1, 2, 3, 4]);
    for (const ids of [
      [1, 2, 3, 4, 5],
      [6, 7, 8, 9],
    ]) {
      const begun = await store.sequence(ids); // with a stored prefix, and with none
      await expect(begun.evict(policy, 1)).rejects.toThrow('expected at most 9 operations at once, got ');
      begun.destroy();
    }
    store.destroy();
    expect(() => new Sequence(model, undefined, { mostOperations: 0 })).toThrow(
      'mostOperations: must be a positive number, got 0',
    );
    model.destroy();
  });
});

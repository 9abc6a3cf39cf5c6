import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { compose } from '@kv/core';
import { h2o, snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import { inTurn } from '@kv/model-testing/in-turn';
import { expect, test } from 'vitest';
import { loadModel, Sequence } from '../src/index.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Returns the bytes of heap and array buffers after collection; finalizers need a turn of the loop. */
async function held(): Promise<number> {
  for (let i = 0; i < 3; i++) {
    collect();
    await new Promise((resolve) => setImmediate(resolve));
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

/** Number of measured events, and of earlier ones that fill what stays allocated. */
const [events, before] = [300, 100];
/** Maximum bytes of text and offsets of the tokens in between; an event that leaked would take 170 KB, all of them 51 MB. */
const most = 2e6;

for (const [name, policy] of inTurn(
  [
    ['snapkv', compose(snapkv({ window: 4 }), topK())],
    ['h2o', compose(h2o(), topK())],
  ] as const,
  2,
)) {
  test(`${events} events of blocks of a prompt under ${name} leave no more than 100 did, a fork's too`, async () => {
    const model = await loadModel('embedded'),
      sequence = new Sequence(model),
      [budget, block] = [256, 2],
      ids = Array.from({ length: budget + (before + events) * block }, (_, i) => (i * 31) % 50),
      seen: number[] = [];
    let fork: Sequence | undefined;
    for await (const fed of sequence.prefillParts(ids, { policy, budget, block })) {
      const ran = (fed - budget) / block;
      if (ran === before) fork = sequence.fork();
      if (ran === before || ran === before + events) seen.push(await held());
    }
    expect(sequence.stats.counts.events).toBeGreaterThanOrEqual(before + events);
    expect(seen[1] - seen[0]).toBeLessThan(most);
    for (const each of [sequence, fork, model]) each?.destroy();
  });

  test(`${events} events while tokens are generated under ${name} leave no more than 100 did`, async () => {
    const model = await loadModel('embedded'),
      sequence = new Sequence(model),
      seen: number[] = [];
    await sequence.prefill(
      Array.from({ length: 256 }, (_, i) => (i * 31) % 50),
      { policy, budget: 256 },
    );
    for (let ran = 1; ran <= before + events; ran++) {
      await sequence.step((ran * 31) % 50, 1);
      if (ran === before || ran === before + events) seen.push(await held());
    }
    expect(sequence.stats.counts.events).toBeGreaterThanOrEqual(before + events);
    expect(seen[1] - seen[0]).toBeLessThan(most);
    for (const each of [sequence, model]) each.destroy();
  });
}

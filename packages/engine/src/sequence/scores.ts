import { KvError } from '@kv/core';
import { compile, emptyDraft, runSteps, showValue } from '@kv/core/engine';
import type { AnySignal, Policy } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import { expectSequence } from '../expect-given.ts';
import { policyOf } from '../policy-text.ts';
import type { Sequence } from './sequence.ts';

/**
 * Returns the scores that a policy's scorers and transforms give the slots of one layer now, on KV rows. Nothing is
 * evicted.
 *
 * @throws KvError for a policy without a scorer, and for a layer that the cache has not
 */
export async function slotScores(
  sequence: Sequence,
  policy: Policy | string,
  layer: number,
): Promise<readonly Float32Array[]> {
  expectSequence('slotScores', sequence);
  const compiled = compile(await policyOf(policy));
  sequence.memory.expectUsable();
  const { length } = sequence.memory.caches.layers;
  if (!(Number.isInteger(layer) && layer >= 0 && layer < length))
    throw new KvError('slotScores', `expected a layer from 0 to ${length - 1}, got ${showValue(layer)}`);
  await sequence.halt();
  return scoresBy(sequence, compiled, layer, sequence.memory.caches.reader(layer));
}

/**
 * Returns the same for every layer that keeps slots, also of a policy whose providers read the text once more.
 *
 * @throws KvError for a policy without a scorer, and for a cache that is not on the host
 */
export async function allSlotScores(
  sequence: Sequence,
  policy: Policy | string,
): Promise<readonly (readonly Float32Array[])[]> {
  const compiled = compile(await policyOf(policy)),
    { memory } = sequence;
  memory.expectUsable();
  await sequence.halt();
  const readers = await memory.caches.readers?.(compiled);
  if (!readers) throw new KvError('scores', 'expected a cache on the host, got one on a device');
  const all: (readonly Float32Array[])[] = [];
  for (const [layer, read] of readers.entries()) all.push(await scoresBy(sequence, compiled, layer, read));
  return all;
}

async function scoresBy(
  { memory, active }: Sequence,
  { label, steps }: CompiledPolicy,
  layer: number,
  read: (signal: AnySignal) => unknown,
): Promise<readonly Float32Array[]> {
  const { caches, slots } = memory,
    { backend } = caches.context,
    { ops } = backend,
    at = slots.layerContext(layer, active),
    place = { at, read, budgets: [] };
  const { scores } = runSteps(
    steps.filter(({ kind }) => kind === 'scorer' || kind === 'transform'),
    [place],
    ops,
    [emptyDraft(place, ops)],
  )[0];
  if (!scores)
    throw new KvError('scores', `expected a policy that scores slots, got '${label || 'full'}', which has no scorer`);
  const rows = ops.reduceRows('mean', scores, at.kvHeads);
  const {
    data,
    shape: [count = 1, width = 0],
  } = (await backend.read([rows]))[0];
  return Array.from({ length: at.kvHeads }, (_, g) => {
    const row = Math.floor((g * count) / at.kvHeads);
    return data.slice(row * width, (row + 1) * width) as Float32Array;
  });
}

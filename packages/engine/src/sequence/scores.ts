import { KvError } from '@kv/core';
import { compile, emptyDraft, runSteps } from '@kv/core/engine';
import type { Policy } from '@kv/core';
import { policyOf } from '../policy-text.ts';
import type { Sequence } from './sequence.ts';

/**
 * Returns the scores that a policy's scorers and transforms give the slots of one layer now, on KV rows. Nothing is
 * evicted.
 *
 * @throws KvError for a policy without a scorer
 */
export async function slotScores(
  sequence: Sequence,
  policy: Policy | string,
  layer: number,
): Promise<readonly Float32Array[]> {
  const { label, steps } = compile(await policyOf(policy)),
    { memory, active } = sequence,
    { caches, slots } = memory,
    { backend } = caches.context,
    { ops } = backend;
  memory.expectUsable();
  await sequence.halt();
  const at = slots.layerContext(layer, active),
    place = { at, read: caches.reader(layer), budgets: [] };
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

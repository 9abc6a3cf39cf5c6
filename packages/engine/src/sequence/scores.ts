import { KvError } from '@kv/core';
import { compile, emptyDraft, runSteps } from '@kv/core/engine';
import type { Policy } from '@kv/core';
import type { ActivePolicy } from '../memory/active-policy.ts';
import type { Memory } from '../memory/memory.ts';

/**
 * Returns the scores that a policy's scorers and transforms give the slots of one layer, on KV rows.
 *
 * @throws KvError for a policy without a scorer
 */
export async function scoresOf(
  memory: Memory,
  course: ActivePolicy,
  policy: Policy,
  layer: number,
): Promise<readonly Float32Array[]> {
  const { label, steps } = compile(policy),
    { backend } = memory,
    { ops } = backend;
  const at = memory.at(layer, course),
    place = { at, read: memory.reader(layer), budgets: [] };
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
    shape: [count = 1, slots = 0],
  } = (await backend.read([rows]))[0];
  return Array.from({ length: at.kvHeads }, (_, g) => {
    const row = Math.floor((g * count) / at.kvHeads);
    return data.slice(row * slots, (row + 1) * slots) as Float32Array;
  });
}

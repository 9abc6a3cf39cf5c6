import { measureText } from '../sweep/measure.ts';
import type { Sweep } from '../sweep/sweep.ts';

const PARTS = {
  dev: 'only ids to choose on (dev)',
  confirm: 'only ids to confirm on (confirm)',
  both: 'ids of both parts (dev and confirm)',
};

/** Describes how the answers of a sweep were generated, as one sentence. */
export function conditions({
  mode = 'aware',
  block,
  every,
  temperature = 0,
  topP = 1,
  maxNewTokens,
  part,
  match,
  caches,
}: Pick<
  Sweep,
  'mode' | 'block' | 'every' | 'temperature' | 'topP' | 'maxNewTokens' | 'part' | 'match' | 'caches'
>): string {
  const parts = [
    mode === 'aware'
      ? 'Query-aware: the question is in the prompt before the eviction'
      : 'Query-agnostic: the question comes after the eviction',
    block === undefined ? 'the prompt passes as a whole' : `the prompt passes in blocks of ${block} tokens`,
    every === undefined ? 'no events while an answer is generated' : `an event every ${every} tokens of an answer`,
    temperature === 0
      ? 'greedy (temperature 0)'
      : `sampled at temperature ${temperature}${topP < 1 ? `, top-p ${topP}` : ''}`,
    maxNewTokens === undefined
      ? 'at most as many new tokens as each problem says'
      : `at most ${maxNewTokens} new tokens`,
    PARTS[part ?? 'both'],
    ...(caches ? [`caches stored as ${caches.join(', ')}`] : []),
    ...(match
      ? [
          `every policy at the ${measureText(match)} of ${match.policy}${match.bytes && caches ? ` in ${caches[0]}` : ''} within ${Number((100 * (match.within ?? 0.01)).toPrecision(3))} %`,
        ]
      : []),
  ];
  return `${parts.join('; ')}.`;
}

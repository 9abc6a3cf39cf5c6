import { compose, positions, scorer, selector, state, view } from '@kv/core';
import type { Piece } from '@kv/core';
import { viewLoop } from '../../src/view-loop.ts';
import { field } from './field.ts';
import type { Field } from './field.ts';

/**
 * Shows the last slots, and counts tokens, and those that each slot has met. Built by asc with the options of
 * packages/cpu/scripts/build-kernel.mjs from
 *
 *     import { addRead, budgetOf, countOf, kvHeadOf, listOf, queryOf, slotsOf, word } from "./packages/cpu/kernel/view";
 *     export function choose(view: usize, own: usize, row: usize, scratch: usize): void {
 *       const n = slotsOf(view, kvHeadOf(view, row)), budget = min<usize>(budgetOf(view), n), list = listOf(view, row), fault = word(own, 0);
 *       for (let i: usize = 0; i < budget; i++) store<u32>(list + 4 * i, <u32>(n - budget + i));
 *       if (fault == 1 && n > budget) store<u32>(list, <u32>(n - budget - 1));
 *       if (fault == 4) store<f32>(queryOf(view, row), 99);
 *       if (fault == 5) addRead(view, row, 1);
 *       store<u32>(countOf(view, row), <u32>budget);
 *     }
 *     export function after(view: usize, own: usize, row: usize, scratch: usize): void {
 *       const count = word(own, 1) + 4 * row * word(own, 2), met = word(own, 3) + 4 * row * word(own, 4), fault = word(own, 0);
 *       for (let i: usize = 0, n = slotsOf(view, kvHeadOf(view, row)); i < n; i++) store<f32>(met + 4 * i, load<f32>(met + 4 * i) + 1);
 *       if (fault == 3 && row > 0) store<f32>(count, load<f32>(count - 4 * word(own, 2)));
 *       else store<f32>(count, load<f32>(count) + (fault == 2 ? 2 : 1));
 *     }
 */
const bytes: string =
  'AGFzbQEAAAABCAFgBH9/f38AAhIBA2VudgZtZW1vcnkCAwGAgAQDAwIAAAcbAwZjaG9vc2UAAAVhZnRlcgABBm1lbW9yeQIACpADAtYBAQN/IAAoAh' +
  'wiBSAAKAJgIAIgACgCACAAKAIEbm5BAnRqKAIAIgMgAyAFSxshBSAAKAI4IAAoAjQgAkECdGxqIQYgASgCACEBA0AgBCAFSQRAIAYgBEECdGogAyAF' +
  'ayAEajYCACAEQQFqIQQMAQsLIAFBAUYgAyAFS3EEQCAGIAMgBWtBAWs2AgALIAFBBEYEQCAAKAIYIAAoAgggAkECdGxqQwAAxkI4AgALIAFBBUYEQC' +
  'AAKAJQIAJBAnRqQQH+HgIAGgsgACgCPCACQQJ0aiAFNgIAC7UBAQR/IAEoAgQgAkECdCIFIAEoAghsaiEDIAEoAgwgBSABKAIQbGohBiABKAIAIQUg' +
  'ACgCYCACIAAoAgAgACgCBG5uQQJ0aigCACEHA0AgBCAHSQRAIAYgBEECdGoiACAAKgIAQwAAgD+SOAIAIARBAWohBAwBCwsgBUEDRiACQQBHcQRAIA' +
  'MgAyABKAIIQQJ0ayoCADgCAAUgAyADKgIAQwAAAEBDAACAPyAFQQJGG5I4AgALCw==';

const tokens = state('tokens', { kind: 'sequence', rows: 'query' }),
  met = state('met', { kind: 'slot', rows: 'query' });
const lasts = (fault: number): Piece<'start', 'scores'> =>
  scorer(
    'lasts',
    {
      needs: [positions, tokens, met],
      loop: () => ({ bytes, words: [fault], states: [{ state: tokens }, { state: met }] }),
    },
    ({ ops, at, positions: p, tokens: before, met: earlier }) => {
      const scores = ops.broadcast(ops.float(p), at.queryHeads);
      return { scores, state: { tokens: ops.add(before, 1), met: ops.add(earlier, ops.lastSlots(scores, at.slots)) } };
    },
  )();
const best = selector('best', { loop: () => ({}) }, ({ ops, scores, budgets, ...masks }) =>
  ops.select(scores, budgets, masks),
);
const showing = (fault: number): Piece<any, any> => view(compose(lasts(fault), best()), { budget: 5 });

export const viewLoops: Field = field('view loop', viewLoop, {
  good: showing(0),
  mutants: { shown: showing(1), states: showing(2), order: showing(3), within: showing(4), counted: showing(5) },
  options: { slots: 9, steps: 2 },
});

import { compose, positions, scorer, selector, state, view } from '@kv/core';
import type { Piece } from '@kv/core';
import { viewLoop } from '../../src/view-loop.ts';
import { field } from './field.ts';
import type { Field } from './field.ts';

/**
 * Shows the last slots, and counts tokens. Built by asc with the options of packages/cpu/scripts/build-kernel.mjs from
 *
 *     import { addRead, budgetOf, countOf, listOf, queryOf, slotsOf, word } from "./packages/cpu/kernel/view";
 *     export function choose(view: usize, own: usize, row: usize, scratch: usize): void {
 *       const n = slotsOf(view), budget = budgetOf(view), list = listOf(view, row), fault = word(own, 0);
 *       for (let i: usize = 0; i < budget; i++) store<u32>(list + 4 * i, <u32>(n - budget + i));
 *       if (fault == 1 && n > budget) store<u32>(list, <u32>(n - budget - 1));
 *       if (fault == 4) store<f32>(queryOf(view, row), 99);
 *       if (fault == 5) addRead(view, row, 1);
 *       store<u32>(countOf(view, row), <u32>budget);
 *     }
 *     export function after(view: usize, own: usize, row: usize, scratch: usize): void {
 *       const count = word(own, 1) + 4 * row * word(own, 2), fault = word(own, 0);
 *       if (fault == 3 && row > 0) store<f32>(count, load<f32>(count - 4 * word(own, 2)));
 *       else store<f32>(count, load<f32>(count) + (fault == 2 ? 2 : 1));
 *     }
 */
const bytes: string =
  'AGFzbQEAAAABCAFgBH9/f38AAhIBA2VudgZtZW1vcnkCAwGAgAQDAwIAAAcbAwZjaG9vc2UAAAVhZnRlcgABBm1lbW9yeQIACpkCAr8BAQN/IA' +
  'AoAgwhBSAAKAIcIQMgACgCOCAAKAI0IAJBAnRsaiEGIAEoAgAhAQNAIAMgBEsEQCAGIARBAnRqIAUgA2sgBGo2AgAgBEEBaiEEDAELCyABQQFG' +
  'IAMgBUlxBEAgBiAFIANrQQFrNgIACyABQQRGBEAgACgCGCAAKAIIIAJBAnRsakMAAMZCOAIACyABQQVGBEAgACgCUCACQQJ0aiIBIAEoAgBBAW' +
  'o2AgALIAAoAjwgAkECdGogAzYCAAtWACABKAIEIAEoAggiAyACQQJ0bGohACABKAIAIgFBA0YgAkEAR3EEQCAAIAAgA0ECdGsqAgA4AgAFIAAg' +
  'ACoCAEMAAABAQwAAgD8gAUECRhuSOAIACws=';

const tokens = state('tokens', { kind: 'sequence', rows: 'query' });
const lasts = (fault: number): Piece<'start', 'scores'> =>
  scorer(
    'lasts',
    { needs: [positions, tokens], loop: () => ({ bytes, words: [fault], states: [{ state: tokens }] }) },
    ({ ops, at, positions: p, tokens: before }) => ({
      scores: ops.broadcast(ops.float(p), at.queryHeads),
      state: { tokens: ops.add(before, 1) },
    }),
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

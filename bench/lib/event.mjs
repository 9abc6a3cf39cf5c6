import { cpu } from '@kv/cpu';
import { compile, planBudgets, runEvent, readDecisions } from '@kv/core/engine';
import { stage } from '@kv/laws';

/**
 * Makes the numbers of one layer whose heads hold equal slots, in the form that a suite of laws takes, at sizes beyond
 * its own random scenes.
 */
export function layerOf({ slots, kvHeads, group, headDim, budget }) {
  const heads = kvHeads * group,
    at = {
      layer: 0,
      layers: 1,
      queryHeads: heads,
      kvHeads,
      headDim,
      step: 0,
      promptLength: slots,
      length: slots,
      slots,
      aligned: true,
      budget,
      selectRows: kvHeads,
    };
  let state = 1;
  const next = () => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) / 2 ** 32;
  const numbers = (length, of) => {
    const out = new Float32Array(length);
    for (let i = 0; i < length; i++) out[i] = of(i);
    return out;
  };
  const attention = numbers(heads * slots, () => next() ** 8);
  for (let h = 0; h < heads; h++) {
    const row = attention.subarray(h * slots, (h + 1) * slots),
      sum = row.reduce((a, b) => a + b, 0);
    for (let i = 0; i < slots; i++) row[i] /= sum;
  }
  const ids = new Array(slots),
    offsets = new Array(slots),
    text = [];
  for (let i = 0, end = 0; i < slots; i++) {
    const word = WORDS[(ids[i] = Math.floor(next() * WORDS.length))];
    text.push(word);
    offsets[i] = [end, (end += word.length)];
  }
  return {
    at,
    lengths: new Array(kvHeads).fill(slots),
    seed: 1,
    attention,
    keys: numbers(kvHeads * slots * headDim, () => next() - 0.5),
    values: numbers(kvHeads * slots * headDim, () => next() - 0.5),
    positions: Uint32Array.from({ length: kvHeads * slots }, (_, i) => i % slots),
    tokens: { ids, text: text.join(''), offsets },
  };
}
const WORDS = ['The', ' key', ':', ' XK7', '.', ' said', '\n', ' password', ' is', ' the'];

/** Returns a function that runs one event of a policy on one layer, again and again, its signals read once. */
export function eventOf(policy, layer) {
  const compiled = compile(policy),
    [event] = stage({ layers: [layer] }, cpu.ops, {}).layers;
  const budgets = planBudgets(compiled, layer.at.budget, [layer.lengths]).budgets[0];
  return () => readDecisions(cpu, [{ ...event, budgets }], runEvent(compiled, [{ ...event, budgets }], cpu.ops));
}

/** Lists what the engine provides for a policy, and its cost in a word. */
export const signalsOf = (policy) =>
  compile(policy).needs.map(({ id, cost, args, provide }) => ({
    id: args === undefined ? id : `${id}(${Object.values(args).join(', ')})`,
    cost,
    ownPass: provide !== undefined,
  }));

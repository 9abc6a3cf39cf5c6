import { describe, expect, test } from 'vitest';
import { each, viewLoopLaws } from '@kv/laws';
import { parsePolicy } from '../src/index.ts';

test.each([
  'hshare(slots=8)',
  'cpe(budget=39)',
  'view(queryKeyProducts | mandatory(sinks=4,recent=36) | topK, budget=8)',
])('%s is refused: it forces more than its budget', (text) => {
  expect(() => parsePolicy(text)).toThrow(
    /slots are fewer than '.*' forces in every head: expected a budget of at least 40/,
  );
});
describe.each([
  'quest(page=4,slots=22)',
  'view(pageBounds(page=5) ∘ mandatory(sinks=3,recent=6) ∘ chunks(size=4,shared=false) ∘ wholeUnits(last=fill), budget=30)',
  'doubleSparsity(channels=5,slots=20,window=4)',
  'hshare(query=2,measure=2,local=9,channels=4,slots=30)',
  'cpe(block=4,threshold=0.6,local=6,budget=30)',
])('loops of %s', (text) => {
  each(viewLoopLaws(parsePolicy(text), { runs: 4, slots: 90 }), test);
});

// from some hundred slots on, a sample bounds the border of what is chosen
describe.each(['quest(slots=300)', 'doubleSparsity(slots=200)', 'cpe(block=4,threshold=0.6,budget=400)'])(
  'loops of %s over long texts',
  (text) => {
    each(viewLoopLaws(parsePolicy(text), { runs: 4, slots: 1200, steps: 3 }), test);
  },
);

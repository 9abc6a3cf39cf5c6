import { describe, expect, test } from 'vitest';
import {
  allocator,
  attentionWindow,
  count,
  inputSignal,
  KvError,
  method,
  number,
  onCompact,
  scorer,
  state,
  values,
  weightScorer,
} from '../../src/index.ts';

type Any = (...args: any[]) => any;
const [anyScorer, anyWeights, anyAllocator, anyCompact, anyMethod, anyState, anyInput, anyNumber] = [
  scorer,
  weightScorer,
  allocator,
  onCompact,
  method,
  state,
  inputSignal,
  number,
] as Any[] as [Any, Any, Any, Any, Any, Any, Any, Any];
const run = ({ values: v }: any) => v;

/** What a caller without types declares by mistake, and what is said of it, at once. */
const WRONG: Readonly<Record<string, readonly [declare: () => unknown, says: RegExp]>> = {
  'no name': [() => anyScorer({ needs: [values] }, run), /^declaration: expected a name first, a text, got an object$/],
  'no declaration': [() => anyScorer('mine', run), /^mine: expected a declaration such as .*, got the function run$/],
  'no equation': [() => anyScorer('mine', {}), /^mine: expected its equation, a function, got undefined$/],
  'an allocator without plan': [() => anyAllocator('mine', {}), /^mine: expected its equation, a function/],
  'an option that is a number': [
    () => anyScorer('mine', { options: { w: 3 } }, run),
    /^mine: option w: expected one made by number, count, flag or the like, got 3$/,
  ],
  'a default outside its bounds': [
    () => anyScorer('mine', { options: { w: count(-3, 'queries', 'How many.') } }, run),
    /^mine: option w: its default must be a positive whole number of queries, got -3$/,
  ],
  'a bound that there is not': [() => anyNumber(1, 'x.', { min: 1 }), /^number: has no bound min/],
  'a field that is misspelt': [
    () => anyScorer('mine', { monotne: true }, run),
    /^mine: has no field monotne \(did you mean monotone\?\)$/,
  ],
  'a signal by its name': [
    () => anyScorer('mine', { needs: ['values'] }, run),
    /^mine: expected needs as a list of signals such as \[values\], got 'values' among them$/,
  ],
  'a signal without a list': [
    () => anyScorer('mine', { needs: values }, run),
    /^mine: expected needs as a list of signals such as \[values\], got an object$/,
  ],
  'two signals of one name': [
    () => anyWeights('mine', { needs: [attentionWindow(4), attentionWindow(8)] }, run),
    /^mine: reads attention\.window\(w=4\) and attention\.window\(w=8\) under one name, 'attention': need one of them$/,
  ],
  'two signals of one name in a hook': [
    () => anyCompact('mine', { needs: [values, inputSignal('values', { rows: 'layer' }, run)] }, run),
    /^mine: reads values and input\.values under one name, 'values'/,
  ],
  'a flag for a function': [
    () => anyCompact('mine', { needs: [values], biases: true }, run),
    /^mine: expected biases as a function, got true$/,
  ],
  'a state of no kind': [
    () => anyState('seen', { kind: 'seq', rows: 'kv' }),
    /^seen: expected kind of state as one of slot, position, unit, sequence, got seq$/,
  ],
  'a state of no rows': [() => anyState('seen', { kind: 'slot', rows: 'kvs' }), /^seen: expected rows of state as one/],
  'an input signal without equation': [() => anyInput('mine', run), /^mine: expected its equation, a function/],
  'a method that gives nothing': [() => anyMethod('mine', {}, () => undefined), /^mine: expected a piece of its/],
  'a method that gives a promise': [() => anyMethod('mine', {}, async () => ({})), /^mine: expected a piece of its/],
};

describe('a declaration that is wrong is refused when it is made', () => {
  test.each(Object.keys(WRONG))('%s', (name) => {
    const [declare, says] = WRONG[name];
    let error: unknown;
    try {
      declare();
    } catch (cause) {
      error = cause;
    }
    expect(error).toBeInstanceOf(KvError);
    expect((error as KvError).message).toMatch(says);
  });
});

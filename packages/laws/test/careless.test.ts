import { allocator, inputSignal, kernel, onCompact, positions, selector, unit, values, weightScorer } from '@kv/core';
import { describe, expect, test } from 'vitest';
import {
  allocatorLaws,
  backendLaws,
  inputSignalLaws,
  kernelLaws,
  refitLaws,
  scorerLaws,
  selectorLaws,
  unitLaws,
} from '../src/index.ts';

type Any = any;
const scored = (run: Any) => (weightScorer as Any)('mine', { needs: [values, positions] }, run)();
const norm = ({ ops, values: v }: Any) => ops.norm(v);
/** Laws of what is declared rightly and computes wrongly, and what one of them says. */
const WRONG: Readonly<Record<string, readonly [laws: () => Record<string, () => unknown>, law: string, says: RegExp]>> =
  {
    'scores that are whole numbers': [
      () => scorerLaws(scored(({ positions: p }: Any) => p)),
      'shape',
      /expected numbers of type f32, got u32/,
    ],
    'scores that are no tensor': [
      () => scorerLaws(scored(() => ({ data: [1], shape: [1, 1] }))),
      'shape',
      /expected a tensor, got an object|left no scores/,
    ],
    'units that are no whole numbers': [
      () =>
        unitLaws(
          (unit as Any)('mine', {}, ({ ops, scores }: Any) => ({
            units: { of: ops.fill(scores, 0), begin: [0], count: 1 },
            scores,
          }))(),
        ),
      'cover',
      /expected numbers of type u32, got f32/,
    ],
    'a selector that selects for KV heads alone': [
      () =>
        selectorLaws(
          selector('mine', {}, ({ ops, at, scores, budgets, ...masks }) => {
            const each = (x: Any): Any => x && ops.broadcast(ops.reduceRows('max', x, at.kvHeads), at.kvHeads);
            return ops.select(each(scores), each(budgets), { forced: each(masks.forced), banned: each(masks.banned) });
          })(),
        ),
      'range',
      /kept slots of layer \d: expected \d rows or one, got \d/,
    ],
    'an allocator that returns nothing': [
      () => allocatorLaws((allocator as Any)('mine', {}, () => undefined)()),
      'total',
      /'mine': expected budgets \[layer\]\[head\], got undefined/,
    ],
    'a refit that misspells what it gives': [
      () => refitLaws((onCompact as Any)('mine', { needs: [values] }, ({ values: v }: Any) => ({ value: v }))()),
      'slots',
      /'mine': expected keys, values or biases, got 'value'/,
    ],
  };

describe('a law says what is wrong with', () => {
  test.each(Object.keys(WRONG))('%s', (name) => {
    const [laws, law, says] = WRONG[name];
    expect(() => laws()[law]()).toThrow(says);
  });
  test('an allocator that leaves out what stays holds every law', () => {
    const laws = allocatorLaws((allocator as Any)('mine', {}, ({ budgets }: Any) => ({ budgets }))());
    for (const law of Object.values(laws)) expect(() => law()).not.toThrow();
  });
});

test.each<[object, RegExp]>([
  [{ runs: 0 }, /^laws: expected runs as a positive whole number, got 0$/],
  [{ runs: -3 }, /^laws: expected runs as a positive/],
  [{ run: 3 }, /^laws: have no option run here: there are tolerance, runs, signals, positional$/],
  [{ nested: true }, /^laws: have no option nested here: there are/],
  [{ tolerence: 1 }, /^laws: have no option tolerence/],
  [{ tolerance: Number.NaN }, /^laws: expected tolerance as a number/],
  [{ tolerance: 1 }, /^laws: expected tolerance as a number from 0 to below 1, got 1$/],
  [{ signals: 3 }, /^laws: expected signals as a function, got 3$/],
])('options %j are refused', (options, says) => {
  expect(() => scorerLaws(scored(norm), options as Any)).toThrow(says);
});

test('laws of an input signal are promises, and refuse what is none', async () => {
  expect(() => inputSignalLaws(values as Any)).toThrow('expected a signal made by inputSignal(), got an object');
  const cumulative = inputSignal('mine', { rows: 'layer' }, ({ ops, input }: Any) =>
    ops.mul(ops.reduce('mean', input, 'channels'), ops.reduce('sum', ops.norm(input), 'slots')),
  );
  await expect(inputSignalLaws(cumulative).blocks()).rejects.toThrow('in blocks of');
});

test('laws of a backend ask for one, and without it those of a kernel hold its reference to what it may read', async () => {
  expect(() => (backendLaws as Any)(scored(norm))).toThrow('backendLaws: expected a backend to compare with the CPU');
  const summed = (id: string, ref: Any) =>
    kernel({
      ...{ id, inputs: { x: 'f32' }, ragged: 'x', per: 'row', wgsl: '', ref },
      output: { dtype: 'f32', shape: ({ x }: Any) => [x[0], 1], dense: true },
    } as Any);
  const sum =
    (slotsOf: (length: number, slots: number) => number) =>
    ({ x }: Any, _: unknown, out: Any, lengths: Any) => {
      const [, slots] = x.shape;
      for (let r = 0; r < out.length; r++)
        for (let i = 0; i < slotsOf(lengths[r], slots); i++) out[r] += x.data[r * slots + i];
    };
  const of = (one: Any) => kernelLaws(one, { runs: 50 });
  for (const law of Object.values(
    of(
      summed(
        'sum',
        sum((length) => length),
      ),
    ),
  ))
    await law();
  await expect(
    of(
      summed(
        'sum-all',
        sum((_, slots) => slots),
      ),
    )['ragged'](),
  ).rejects.toThrow('sum-all on rows with NaN');
  const writing = ({ x }: Any, _: unknown, out: Any) => {
    for (let r = 0; r < out.length; r++) x.data[r] = 7;
  };
  await expect(of(summed('writes', writing))['sizes']()).rejects.toThrow("writes must not write its input 'x'");
});

import { KvError } from '@kv/core';
import { cpu } from '@kv/cpu';
import fc from 'fast-check';
import { expect, test } from 'vitest';

const { ops } = cpu,
  matrix = ops.from({ data: [3, 4, 1, 2], shape: [2, 2] }),
  vectors = ops.from({ data: [3, 4, 1, 2], shape: [1, 2, 2] }),
  groups = ops.from({ data: [0, 1], shape: [1, 2] }, 'u32');
type Any = (...args: unknown[]) => unknown;
const of = ops as unknown as Readonly<Record<string, Any>>;

/** Calls of operations with a word, and the words that there are. */
const CALLS: Readonly<Record<string, readonly [(word: unknown) => unknown, readonly unknown[]]>> = {
  from: [(word) => of.from({ data: [1], shape: [1] }, word), ['f32', 'u32', undefined]],
  map: [(word) => of.map(word, matrix), ['exp', 'log', 'log1p', 'sqrt', 'abs', 'floor']],
  zip: [(word) => of.zip(word, matrix, 2), ['add', 'sub', 'mul', 'div', 'max', 'min', 'less', 'atLeast', 'equal']],
  reduce: [(word) => of.reduce(word, matrix, 'slots'), ['sum', 'mean', 'max', 'min', 'std']],
  'the axis of reduce': [(word) => of.reduce('sum', vectors, word), ['rows', 'slots', 'channels']],
  groupRows: [(word) => of.groupRows(word, matrix, 1), ['mean', 'max', 'sum']],
  groupSlots: [(word) => of.groupSlots(word, matrix, groups, 2), ['mean', 'sum', 'max']],
  norm: [(word) => of.norm(vectors, word), [1, 2, undefined]],
  pool: [(word) => of.pool(matrix, { kernel: 1, kind: word }), ['mean', 'max']],
  rank: [(word) => of.rank(matrix, word), ['row', 'all']],
};

test.each(Object.keys(CALLS))('%s takes its words, and refuses every other', (name) => {
  const [call, words] = CALLS[name];
  for (const word of words) expect(() => call(word)).not.toThrow();
  const others = fc.oneof(
    fc.string(),
    fc.constantFrom('sin', 'pow', 'avg', 'channel', 'rows', 'float32', 'i32', 3, 0, null, true, undefined),
  );
  fc.assert(
    fc.property(
      others.filter((word) => !words.includes(word)),
      (word) => {
        expect(() => call(word)).toThrow(KvError);
        expect(() => call(word)).toThrow(/^ops\.\w+: expected \w+, .*, got |^ops\.\w+: expected \w+, got /);
      },
    ),
  );
});

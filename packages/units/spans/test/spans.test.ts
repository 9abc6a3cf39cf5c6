import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Piece, Tokens } from '@kv/core';
import { compile, emptyDraft, runSteps } from '@kv/core/engine';
import { cpu, readCpu } from '@kv/cpu';
import { each, scene, unitLaws } from '@kv/laws';
import { spans } from '../src/index.ts';
import { spanNumbers, spanScores } from './spans.oracle.ts';

/** Tokens of these texts; special ones have none. */
function tokensOf(words: readonly string[]): Tokens {
  const offsets: [number, number][] = [];
  let text = '';
  for (const word of words) {
    offsets.push([text.length, text.length + word.length]);
    text += word;
  }
  return { ids: words.map((_, i) => i), text, offsets };
}
// words of the laws' texts: a full stop, and a line break
describe.each(
  [
    spans({ delimiter: '.' }),
    spans({ delimiter: '\n', score: 'max', shared: true }),
    spans({ at: '2 5', score: 'sum' }),
  ].map((piece) => [piece.label, piece] as const),
)('%s', (_, piece) => {
  each(unitLaws(piece, { runs: 40 }), test);
});
const chat = tokensOf(['', 'system', '\n', 'Be', ' brief.', '', 'user', '\n', 'Hi', '', 'assistant', '\n', 'Yes', '.']);
describe('spans over turns', () =>
  each(
    unitLaws(spans(), {
      runs: 40,
      signals: (signal, { at: { length } }) =>
        signal.id === 'tokens'
          ? {
              ...chat,
              text: chat.text.slice(0, chat.offsets[length - 1]?.[1]),
              offsets: Array.from({ length }, (_, i) => chat.offsets[i] ?? [39, 39]),
            }
          : undefined,
    }),
    test,
  ));

/** Cuts one KV head's row of all positions. */
function cut(
  piece: Piece,
  row: readonly number[],
  tokens: Tokens,
  promptLength: number,
  positions = row.map((_, p) => p),
) {
  const { ops } = cpu,
    length = tokens.ids.length,
    spec = { layers: 1, kvHeads: 1, group: 1, slots: row.length, dim: 1, ragged: false, evicted: 0 } as const,
    [{ at }] = scene({ ...spec, budget: 1, weights: 'ties', vectors: 'zeros', seed: 1 }).layers,
    layer = {
      at: { ...at, length, promptLength },
      budgets: [1],
      read: ({ id }: { readonly id: string }): unknown =>
        id === 'tokens' ? tokens : ops.from({ data: Uint32Array.from(positions), shape: [1, row.length] }, 'u32'),
    };
  const { units, unitScores } = runSteps(compile(piece).steps, [layer], ops, [
    { ...emptyDraft(layer, ops), scores: ops.from({ data: Float32Array.from(row), shape: [1, row.length] }) },
  ])[0];
  return { of: [...readCpu(units!.of).data], count: units!.count, scores: [...readCpu(unitScores!).data] };
}
const words = fc.array(fc.constantFrom('a', 'ab', 'b', ' ', '##', '#', 'x#', '', '###'), {
  minLength: 1,
  maxLength: 16,
});
test('spans between a delimiter, and their scores, agree with the oracle, after evictions too', () =>
  fc.assert(
    fc.property(words, fc.nat(20), fc.nat(0xffff), (told, prompt, gone) => {
      const numbers = spanNumbers(told, '##', prompt),
        left = told.map((_, p) => p).filter((p) => p === 0 || !((gone >> (p % 16)) & 1)),
        row = left.map((p) => Math.round(50 * Math.sin(p * 3 + gone)) / 10);
      for (const score of ['mean', 'max', 'sum'] as const) {
        const got = cut(spans({ delimiter: '##', score }), row, tokensOf(told), prompt, left);
        expect(got.of).toEqual(left.map((p) => numbers[p]));
        expect(got.count).toBe(1 + Math.max(...numbers));
        spanScores(row, got.of, got.count, score).forEach((want, u) => expect(got.scores[u]).toBeCloseTo(want, 4));
      }
    }),
    { numRuns: 300 },
  ));
test('spans begin at turns, at given positions, and where the prompt ends', () => {
  const row = chat.ids.map(() => 1),
    begins = (piece: Piece, prompt = 14): number[] => {
      const { of } = cut(piece, row, chat, prompt);
      return of.flatMap((u, i) => (i > 0 && u !== of[i - 1] ? [i] : []));
    };
  expect(begins(spans())).toEqual([5, 9]);
  expect(begins(spans(), 12)).toEqual([5, 9, 12]);
  expect(begins(spans({ at: '3 9 200' }), 12)).toEqual([3, 9, 12]);
  expect(begins(spans({ at: [3, 9] }))).toEqual([3, 9]);
  expect(spans({ at: [3, 9] }).label).toBe('spans(at=3 9)');
});
test('options are checked', () => {
  for (const at of ['4 4', '0', '-1', '1.5', 'x', [2, 1]])
    expect(() => spans({ at })).toThrow(
      "spans: at must be up to 256 ascending positions above 0, such as '12 40', got ",
    );
  expect(() => spans({ at: '3', delimiter: '\n' })).toThrow('spans: expected `at` or `delimiter`, got both');
});

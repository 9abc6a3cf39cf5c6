import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compose, KvError, scorer, scoreTransform } from '@kv/core';
import { apply } from '@kv/cpu';
import type { Piece, ProviderEngine, Signal } from '@kv/core';
import { each, scoreAllocatorLaws } from '@kv/laws';
import { BUDGET_CURVE_FILE, duoAttention, HEAD_SCORES_FILE, headScoresFile, lukv } from '../src/index.ts';
import { curve, streaming } from './fixed-budgets.oracle.ts';

/** An .npy file of f32 or f64. */
function npy(shape: readonly number[], data: readonly number[], bytes: 4 | 8 = 4): Uint8Array {
  const header = `{'descr': '<f${bytes}', 'fortran_order': False, 'shape': (${shape.join(', ')}), }`
      .padEnd(117)
      .concat('\n'),
    file = new Uint8Array(128 + bytes * data.length),
    view = new DataView(file.buffer);
  file.set([0x93, ...new TextEncoder().encode('NUMPY'), 1, 0, 118, 0]);
  file.set(new TextEncoder().encode(header), 10);
  data.forEach((x, i) => (bytes === 4 ? view.setFloat32(128 + 4 * i, x, true) : view.setFloat64(128 + 8 * i, x, true)));
  return file;
}
/** Returns what a piece's signal reads from a file next to the model. */
async function fromFile(piece: Piece, file: Uint8Array | undefined, layer: number): Promise<object> {
  const signal = piece.atoms[0].needs[0] as Signal<string, object>,
    engine = {
      artifact: async (name: string) => (name === BUDGET_CURVE_FILE || name === HEAD_SCORES_FILE ? file : undefined),
    } as ProviderEngine;
  return signal.provide!(engine, layer);
}
const flat = scorer('flat', {}, ({ ops, at }) =>
  ops.from({ data: new Float32Array(at.kvHeads * at.slots), shape: [at.kvHeads, at.slots] }),
)();

describe('duoAttention', () => {
  const piece = duoAttention({ share: 0.5, slots: 3 });
  // scores belong to KV heads: a query head has none of its own
  const { rows: _rows, ...laws } = scoreAllocatorLaws(piece, {
    slack: Infinity,
    runs: 50,
    signals: (_, { at }) => ({
      places: Array.from({ length: at.kvHeads }, (__, g) => g),
      of: at.kvHeads,
      layers: at.layers,
    }),
  });
  each(laws, test);
  const models = fc.integer({ min: 1, max: 3 }).chain((heads) =>
    fc.array(fc.array(fc.constantFrom(0.1, 0.5, 1, 1.3, 1.7), { minLength: heads, maxLength: heads }), {
      minLength: 1,
      maxLength: 4,
    }),
  );
  test('the lowest scores of the whole model stream, whether given or read from the published file', async () => {
    await fc.assert(
      fc.asyncProperty(
        models,
        fc.constantFrom(0, 0.25, 0.5, 1),
        fc.integer({ min: 1, max: 12 }),
        async (scores, share, slots) => {
          const want = streaming(scores, share, slots, 9),
            file = headScoresFile(scores),
            options = { share, slots };
          for (const [l, row] of want.entries()) {
            const at = { kvHeads: row.length, queryHeads: row.length, layer: l, layers: scores.length, slots: 9 };
            expect(apply(compose(flat, duoAttention({ ...options, scores })), { at }).budgets).toEqual(row);
            expect(
              apply(compose(flat, duoAttention(options)), {
                at,
                headScores: await fromFile(duoAttention(options), file, l),
              }).budgets,
            ).toEqual(row);
          }
        },
      ),
      { numRuns: 40 },
    );
  });
  test('what is no share, no number of slots, or of another model is refused', () => {
    expect(() => duoAttention({ share: 2 })).toThrow('duoAttention: share must be a share from 0 to 1, got 2');
    expect(() => duoAttention({ slots: 0 })).toThrow(
      'duoAttention: slots must be a positive whole number of slots, got 0',
    );
    expect(() =>
      apply(compose(flat, duoAttention({ scores: '1/2 3/4' })), { at: { kvHeads: 1, slots: 4, layers: 2 } }),
    ).toThrow('duoAttention: expected scores of 2 layers with 1 KV heads, got 2 with 2');
  });
  test.each([
    [undefined, 'expected full_attention_heads.tsv next to the model, got none'],
    ['1\t2\n3\n', 'expected lines of as many numbers each'],
    ['x\ty', 'expected lines of as many numbers each'],
    ['', 'expected lines of as many numbers each'],
    ['1\t2', 'expected head scores of layer 3, got 1 layers'],
  ])('the file %j is refused', async (text, sentence) => {
    await expect(
      fromFile(duoAttention(), text === undefined ? undefined : new TextEncoder().encode(text), 3),
    ).rejects.toThrow(sentence);
  });
});

describe('lukv', () => {
  const even = { heads: 0, layers: 0, lost: Array.from({ length: 99 }, (_, r) => (r + 1) / 100) };
  each(
    scoreAllocatorLaws(lukv(), {
      slack: Infinity,
      runs: 50,
      signals: (_, { at }) => ({
        heads: at.kvHeads,
        layers: at.layers,
        lost: even.lost.map((x) => new Array<number>(at.kvHeads).fill(x)),
      }),
    }),
    test,
  );
  test('the heads of a layer keep what the curve says, by largest remainders', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 1, max: 3 }),
        fc.integer({ min: 2, max: 60 }),
        fc.nat(59),
        fc.nat(999),
        fc.constantFrom(4 as const, 8 as const),
        async (heads, layers, n, asked, seed, bytes) => {
          const budget = Math.min(asked + 1, n - 1),
            data = Array.from({ length: 99 * layers * heads }, (_, i) =>
              Math.fround(Math.min(1, Math.abs(Math.sin((seed + 1) * (i + 1))))),
            );
          const index = Math.max(1, Math.min(99, Math.round((1 - budget / n) * 100))) - 1,
            file = npy([99, layers, heads], data, bytes);
          for (let l = 0; l < layers; l++) {
            const at = { kvHeads: heads, queryHeads: heads, layer: l, layers, slots: n },
              { budgets } = apply(compose(flat, lukv()), { at, budget, budgetCurve: await fromFile(lukv(), file, l) });
            expect(budgets).toEqual(
              curve(data.slice((index * layers + l) * heads, (index * layers + l + 1) * heads), n),
            );
          }
        },
      ),
      { numRuns: 60 },
    );
  });
  test('a budget of everything keeps everything, and forced slots count', async () => {
    const budgetCurve = await fromFile(lukv(), npy([99, 1, 2], new Array<number>(198).fill(0.99)), 0),
      at = { kvHeads: 2, queryHeads: 2, slots: 50 };
    expect(apply(compose(flat, lukv()), { at, budgetCurve }).budgets).toEqual([50, 50]);
    expect(apply(compose(flat, lukv()), { at, budget: 0, budgetCurve }).budgets).toEqual([0, 0]);
    const three = scoreTransform('three', {}, ({ ops, scores }) => ({ scores, forced: ops.lastSlots(scores, 3) }))();
    expect(apply(compose(flat, three, lukv()), { at, budget: 10, budgetCurve }).budgets).toEqual([3, 3]);
  });
  test('a curve of another model is refused', async () => {
    const budgetCurve = await fromFile(lukv(), npy([99, 1, 2], new Array<number>(198).fill(0.5)), 0);
    expect(() => apply(compose(flat, lukv()), { at: { kvHeads: 3, slots: 5 }, budget: 2, budgetCurve })).toThrow(
      'lukv: expected a curve of 1 layers with 3 KV heads, got 1 with 2',
    );
  });
  test('other bytes are refused in one sentence, whatever they are', async () => {
    const whole = npy([99, 1, 1], new Array<number>(99).fill(0.5));
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          fc.uint8Array({ maxLength: 200 }),
          fc.nat(whole.length - 1).map((end) => whole.subarray(0, end)),
          fc.tuple(fc.nat(127), fc.nat(255)).map(([i, x]) => {
            const bytes = whole.slice();
            bytes[i] = x;
            return bytes;
          }),
        ),
        async (bytes) => {
          try {
            await fromFile(lukv(), bytes, 0);
          } catch (error) {
            expect(KvError.is(error)).toBe(true);
          }
        },
      ),
      { numRuns: 200 },
    );
    await expect(fromFile(lukv(), npy([99, 1, 1], new Array<number>(99).fill(Number.NaN)), 0)).rejects.toThrow(
      'budget-curve.npy: expected finite numbers',
    );
    await expect(fromFile(lukv(), npy([99, 1], new Array<number>(99).fill(0)), 0)).rejects.toThrow(
      'budget-curve.npy: expected 3 axes of f32 or f64',
    );
  });
});

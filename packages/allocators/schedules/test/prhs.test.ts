import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cpu } from '@kv/cpu';
import type { LayerContext, Piece, FreezeHook, ViewHook } from '@kv/core';
import { each, scheduleLaws } from '@kv/laws';
import { etf, psaw } from '../src/index.ts';
import { boundOracle } from './prhs.oracle.ts';

describe.each(
  [psaw(), psaw({ sinks: 2, phi: 0.2, alpha: 2.5 }), etf(), etf({ psi: 0.9, gamma: 0.5 })].map(
    (piece) => [piece.label, piece] as const,
  ),
)('%s', (_, piece) => {
  each(scheduleLaws(piece, { sinks: 2, runs: 60 }), test);
});

/** Lowest position in sight, or not frozen, of the query at t in each layer. */
function bounds(piece: Piece, layers: number, t: number): number[] {
  const [hook] = piece.atoms as readonly (ViewHook | FreezeHook)[];
  return Array.from({ length: layers }, (_, layer) => {
    const at: LayerContext = {
      layer,
      layers,
      queryHeads: 1,
      kvHeads: 1,
      headDim: 1,
      step: 0,
      promptLength: t,
      length: t + 1,
      slots: t + 1,
      aligned: true,
      budget: t,
      selectRows: 1,
    };
    return hook.at === 'freeze'
      ? hook.run(at).below
      : hook.run({
          at,
          ops: cpu.ops,
          draft: { budgets: cpu.ops.from({ data: [1], shape: [1, 1] }), state: new Map(), checks: [] },
          read: () => {
            throw new Error('reads nothing');
          },
        }).lower!(t);
  });
}
const places = fc.record({
  layers: fc.integer({ min: 1, max: 40 }),
  t: fc.integer({ min: 0, max: 5000 }),
  base: fc.double({ min: 0.05, max: 1, noNaN: true }),
  power: fc.double({ min: 0, max: 3, noNaN: true }),
});
test('agrees with eq. 15 and 16 in float64, but where the bound is whole to 12 digits', () => {
  fc.assert(
    fc.property(places, ({ layers, t, base, power }) => {
      const want = boundOracle(layers, base, power, t);
      for (const piece of [psaw({ phi: base, alpha: power }), etf({ psi: base, gamma: power })])
        bounds(piece, layers, t).forEach((bound, l) => {
          const x = want.get(l);
          if (Math.abs(x - Math.round(x)) > 1e-8) expect(bound).toBe(Math.floor(x));
        });
    }),
    { numRuns: 60 },
  );
});
test('below three quarters of the depth nothing happens, and at the top φ^α of the window is left', () => {
  expect(bounds(psaw(), 8, 100)).toEqual([0, 0, 0, 0, 0, 0, 16, 30]); // 1 - sqrt(0.7) = 0.163, 1 - 0.7
  expect(bounds(etf(), 4, 240)).toEqual([0, 0, 0, 120]);
  expect(bounds(psaw({ phi: 1 }), 8, 100)).toEqual(new Array(8).fill(0));
});
test.each([
  ['sinks', () => psaw({ sinks: -1 })],
  ['phi', () => psaw({ phi: 0 })],
  ['alpha', () => psaw({ alpha: -1 })],
  ['psi', () => etf({ psi: 1.5 })],
  ['gamma', () => etf({ gamma: Number.NaN })],
])('%s is checked', (option, make) => {
  expect(make).toThrow(`${option} must be `);
});

import fc from 'fast-check';
import ndarray from 'ndarray';
import { describe, expect, test } from 'vitest';
import { apply } from '@kv/core';
import { each, scene, sceneSpecs, scorerLaws } from '@kv/laws';
import { expectedAttention } from '../src/index.ts';
import { expectedOracle, length } from './expected.oracle.ts';

describe.each([expectedAttention({ window: 6, future: 3, sinks: 1 }), expectedAttention({ window: 2, future: 1, sinks: 0, covariance: false, valueNorm: false })].map((piece) => [piece.label, piece] as const))('%s', (_, piece) => {
  each(scorerLaws(piece, { runs: 40 }), test);
});

const angle = (position: number, pair: number): number => position / 3 ** pair;
const rope = (d: number) => ({ rotary: 2 * Math.floor(d / 2), angles: (p: Uint32Array) => {
  const half = Math.floor(d / 2), table = (f: (x: number) => number): Float32Array => Float32Array.from({ length: p.length * half }, (_, i) => f(angle(p[Math.floor(i / half)]!, i % half)));
  return { cos: table(Math.cos), sin: table(Math.sin) };
} });

test('agrees with the oracle: full rotation matrices, sinks left out, mean over the group, times |v|', () => {
  fc.assert(fc.property(sceneSpecs({ layers: 1, ragged: false }).filter((s) => s.vectors !== 'long' && s.slots + s.evicted > 2), fc.integer({ min: 1, max: 4 }), fc.integer({ min: 0, max: 2 }), (spec, future, sinks) => {
    const { at, keys, values, positions } = scene(spec).layers[0]!, { kvHeads: G, queryHeads: H, slots: n, headDim: d } = at, w = at.length;
    const q = Float32Array.from({ length: H * w * d }, (_, i) => Math.sin(i * 1.3));
    const got = apply(expectedAttention({ window: w, future, sinks }), { queries: { data: q, shape: [H, w, d] }, keys: { data: keys, shape: [G, n, d] }, values: { data: values, shape: [G, n, d] }, positions: { data: positions, shape: [G, n] }, rope: rope(d), at: { length: w, headDim: d } }).scores!.data;
    const rows = (x: Float32Array, r: number, m: number) => Array.from({ length: m }, (_, i) => ndarray(Float64Array.from(x.subarray((r * m + i) * d, (r * m + i + 1) * d)), [d]));
    for (let g = 0; g < G; g++) {
      const placed = Array.from(positions.subarray(g * n, (g + 1) * n)), k = rows(keys, g, n), v = rows(values, g, n);
      if (placed.every((p) => p < sinks)) continue;
      const heads = Array.from({ length: H / G }, (_, r) => expectedOracle({ queries: rows(q, (g * H) / G + r, w), queryPositions: Array.from({ length: w }, (_, i) => i), keys: k, values: v, positions: placed, length: w, future, sinks }, angle));
      v.forEach((x, i) => expect(Math.abs(got[g * n + i]! - (heads.reduce((a, row) => a + row[i]!, 0) / heads.length) * length(x))).toBeLessThan(2e-5));
    }
  }), { numRuns: 60 });
});

describe('options are checked', () => {
  test.each([['window', () => expectedAttention({ window: 0 })], ['future', () => expectedAttention({ future: 0.5 })], ['sinks', () => expectedAttention({ sinks: -1 })], ['epsilon', () => expectedAttention({ epsilon: -1 })]])('%s', (option, make) => { expect(make).toThrow(new RegExp(`^expectedAttention: ${option} must be `)); });
});

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { cpu, readCpu } from '@kv/cpu';
import { plainProducts } from '@kv/cpu/engine';
import { pageBound } from '../src/page-bounds.ts';

const cases = fc.record({
  G: fc.integer({ min: 1, max: 2 }),
  n: fc.oneof(fc.nat(40), fc.integer({ min: 500, max: 1300 })),
  d: fc.integer({ min: 1, max: 21 }),
  page: fc.integer({ min: 1, max: 1200 }),
  seed: fc.nat(1e6),
});

test('WebAssembly gives the page bounds of the plain loops, to the bit', () =>
  fc.assert(
    fc.property(cases, ({ G, n, d, page, seed }) => {
      const wave = (length: number, by: number): Float32Array =>
          Float32Array.from({ length }, (_, i) => Math.sin(i * by + seed) * ((i % 5) - 2)),
        queries = { data: wave(2 * G * d, 0.7), shape: [2 * G, 1, d] },
        keys = { data: wave(G * n * d, 1.3), shape: [G, n, d] },
        { from, kernel } = cpu.ops,
        got = readCpu(kernel(pageBound, { queries: from(queries), keys: from(keys) }, { page })).data,
        want = new Float32Array(got.length);
      pageBound.ref({ queries, keys }, { page }, want, new Uint32Array(G).fill(n), plainProducts);
      expect(got).toEqual(want);
    }),
    { numRuns: 60 },
  ));

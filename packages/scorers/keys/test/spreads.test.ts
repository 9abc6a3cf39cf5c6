import fc from 'fast-check';
import { expect, test } from 'vitest';
import { cpu, readCpu } from '@kv/cpu';
import { plainProducts } from '@kv/cpu/engine';
import { lagSpread } from '../src/lag.ts';

const cases = fc.record({
  G: fc.integer({ min: 1, max: 2 }),
  n: fc.oneof(fc.nat(40), fc.integer({ min: 500, max: 1300 })),
  d: fc.integer({ min: 2, max: 21 }),
  lag: fc.integer({ min: 1, max: 600 }),
  sinks: fc.nat(5),
  seed: fc.nat(1e6),
});

test('WebAssembly gives the spreads of the plain loops', () =>
  fc.assert(
    fc.property(cases, ({ G, n, d, lag, sinks, seed }) => {
      const data = Float32Array.from({ length: G * n * d }, (_, i) => Math.sin(i * 1.3 + seed) * ((i % 5) - 2)),
        x = { data, shape: [G, n, d] },
        got = readCpu(cpu.ops.kernel(lagSpread, { x: cpu.ops.from(x) }, { lag, sinks })).data,
        want = new Float32Array(got.length);
      lagSpread.ref({ x }, { lag, sinks }, want, new Uint32Array(G).fill(n), plainProducts);
      got.forEach((y, i) => expect(Math.abs(y - want[i])).toBeLessThanOrEqual(2 ** -22 * Math.max(1, want[i])));
    }),
    { numRuns: 60 },
  ));

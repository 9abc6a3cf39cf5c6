import fc from 'fast-check';
import { expect, test } from 'vitest';
import { certificate, certificates, fitDecay } from '../src/index.ts';
import type { AttentionRow } from '../src/index.ts';

const rows = fc.array(
  fc
    .record({
      at: fc.constantFrom('event' as const, 'view' as const),
      layer: fc.nat(2),
      weights: fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 2, maxLength: 20 }),
      kept: fc.infiniteStream(fc.boolean()),
    })
    .map(({ at, layer, weights, kept }): AttentionRow => {
      const sum = weights.reduce((a, b) => a + b, 0),
        stays = weights.flatMap((_, i) => (kept.next().value ? [i] : []));
      return {
        at,
        layer,
        head: 0,
        step: 1,
        query: weights.length - 1,
        weights: weights.map((w) => w / sum),
        positions: weights.map((_, i) => i),
        kept: stays.length > 0 ? stays : [0],
      };
    }),
  { minLength: 1, maxLength: 12 },
);
const run = { heads: 2, layers: 3, steps: 4, total: (): number | undefined => undefined };

test("events and views are summed up apart: mean and largest of every row's own certificate", () => {
  fc.assert(
    fc.property(rows, (given) => {
      const all = certificates();
      given.forEach((row) => all.row(row));
      const got = all.conclude(run);
      for (const [name, at] of [
        ['events', 'event'],
        ['views', 'view'],
      ] as const) {
        const own = given
            .filter((r) => r.at === at)
            .map((r) => ({ ...certificate(r.weights, r.kept), layer: r.layer })),
          summary = got[name];
        expect(summary?.rows ?? 0).toBe(own.length);
        if (!summary) continue;
        for (const key of ['dropped', 'best', 'overlap', 'divergence', 'entropy', 'information'] as const) {
          expect(summary[key].mean).toBeCloseTo(own.reduce((s, c) => s + c[key], 0) / own.length, 9);
          expect(summary[key].max).toBe(Math.max(...own.map((c) => c[key])));
        }
        summary.byLayer.forEach((x, l) => {
          const here = own.filter((c) => c.layer === l);
          expect(x).toBeCloseTo(here.length === 0 ? 0 : here.reduce((s, c) => s + c.dropped, 0) / here.length, 9);
        });
        expect(summary.best.mean).toBeLessThanOrEqual(summary.dropped.mean + 1e-12);
      }
    }),
    { numRuns: 60 },
  );
});
test('fading: attention that decays as e^(-λ age) gives λ back, with no error; the bound is what was measured', () => {
  const rate = 0.15,
    n = 400,
    sinkMass = 0.3,
    all = certificates({ sinks: 4 }),
    raw = Array.from({ length: n }, (_, i) => (i < 4 ? 0 : Math.exp(-rate * (n - 1 - i)))),
    sum = raw.reduce((a, b) => a + b, 0);
  all.row({
    at: 'event',
    layer: 0,
    head: 0,
    step: 0,
    query: n - 1,
    weights: raw.map((w, i) => (i < 4 ? sinkMass / 4 : ((1 - sinkMass) * w) / sum)),
    positions: raw.map((_, i) => i),
    kept: [0],
  });
  const { fading } = all.conclude(run),
    near = fading!.ages.filter(({ age }) => age <= 64);
  expect(fading!.sinkMass).toBeCloseTo(sinkMass, 9);
  for (const { age, measured } of near)
    expect(Math.abs(measured - (1 - sinkMass) * Math.exp(-rate * age))).toBeLessThan(1e-4);
  expect(fitDecay(near.map(({ age, measured }) => [age, measured] as const)).rate).toBeCloseTo(rate, 2);
  expect(fading!.error).toBeLessThan(0.2);
});
test('the retrieval ratio is what a run counted, and a run that showed nothing has no certificates', () => {
  expect(certificates().conclude(run)).toEqual({});
  expect(certificates().conclude({ ...run, total: (id) => (id === 'state.cis.retrievals' ? 6 : undefined) })).toEqual({
    retrievalRatio: 0.25,
  });
});

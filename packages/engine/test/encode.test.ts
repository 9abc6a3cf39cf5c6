import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createRows, decodeRows, encodeRows, floats, fromHalf, type Rows } from '../src/cache/encode.ts';
import { BLOCK, rowBytes, type RowForm } from '../src/cache/form.ts';

/** Numbers as caches hold them, and extremes: zeros, numbers below the normal ones of halves, beyond their largest. */
const size = fc.constantFrom(0, 1e-40, 1e-30, 6e-8, 3e-5, 1, 40, 65_504, 7e4, 1e30),
  number = fc.tuple(fc.float({ noNaN: true, min: -1, max: 1 }), size).map(([share, most]) => Math.fround(share * most)),
  usual = fc.float({ noNaN: true, min: -30, max: 30 }),
  row = (of: fc.Arbitrary<number>, d = 64): fc.Arbitrary<Float32Array> =>
    fc.array(of, { minLength: d, maxLength: d }).map((list) => Float32Array.from(list)),
  rows = (d = 64): fc.Arbitrary<Float32Array> => fc.oneof(row(usual, d), row(number, d), row(fc.constant(0), d));

const stored = (form: RowForm, x: Float32Array, d: number): Rows => {
  const out = createRows(form, d, x.length / d);
  encodeRows(out, d, 0, x);
  return out;
};
const back = (encoded: Rows, d: number): Float32Array => {
  const n = encoded.codes.length / rowBytes(encoded.form, d).codes,
    out = new Float32Array(n * d);
  decodeRows(encoded, d, 0, n, out);
  return out;
};
/** The step between halves around x. */
const step = (x: number): number => 2 ** Math.max(-24, Math.floor(Math.log2(Math.abs(x) || 2 ** -40)) - 10);
/** The error that f32 adds to what is computed with numbers of this size. */
const slack = (x: number): number => 1e-30 + Math.abs(x) * 2 ** -20;
/** Zeros without a sign. */
const unsigned = (x: Float32Array): Float32Array => x.map((value) => value + 0);
const most = (x: Float32Array): number => x.reduce((top, value) => Math.max(top, Math.abs(value)), 0);

test('f32 and halves: what is stored is the nearest number of the form, and is stored as itself', () => {
  fc.assert(
    fc.property(rows(), (x) => {
      expect(back(stored('f32', x, 64), 64)).toEqual(x);
      const encoded = stored('f16', x, 64),
        decoded = back(encoded, 64);
      for (const [i, value] of decoded.entries()) {
        const within = Math.max(-65_504, Math.min(65_504, x[i]));
        expect(Math.abs(value - within)).toBeLessThanOrEqual(step(within) / 2 + slack(within));
      }
      expect(unsigned(back(stored('f16', decoded, 64), 64))).toEqual(unsigned(decoded));
    }),
  );
});

test('8 bits: at most half a scale away, and the same codes again', () => {
  fc.assert(
    fc.property(rows(), (x) => {
      const encoded = stored('q8', x, 64),
        [scale] = floats(encoded.scales),
        decoded = back(encoded, 64),
        top = most(x);
      expect(Math.abs(scale - top / 127)).toBeLessThanOrEqual(slack(scale));
      for (const [i, value] of decoded.entries())
        expect(Math.abs(value - x[i])).toBeLessThanOrEqual(scale / 2 + slack(top));
      // smaller rows are noise of f32 itself
      if (top >= 1e-30) expect(stored('q8', decoded, 64).codes).toEqual(encoded.codes);
    }),
  );
});

test('4 bits: at most half a scale away, and what the halves of scale and minimum round', () => {
  fc.assert(
    fc.property(rows(BLOCK), (x) => {
      const encoded = stored('q4', x, BLOCK),
        [scale, low] = new Uint16Array(encoded.scales.buffer),
        decoded = back(encoded, BLOCK),
        // what halves can hold
        within = x.map((value) => Math.max(-65_504, Math.min(65_504, value))),
        [least, top] = [Math.min(...within), Math.max(...within)],
        wanted = (top - fromHalf(low)) / 15;
      if (most(x) <= 65_504) {
        expect(Math.abs(fromHalf(low) - least)).toBeLessThanOrEqual(step(least) / 2 + slack(least));
        expect(Math.abs(fromHalf(scale) - wanted)).toBeLessThanOrEqual(step(wanted) / 2 + slack(wanted));
      }
      const bound = fromHalf(scale) / 2 + step(least) / 2 + 15 * (step(wanted) / 2) + slack(most(within));
      for (const [i, value] of decoded.entries())
        if (most(x) <= 65_504) expect(Math.abs(value - x[i])).toBeLessThanOrEqual(bound);
        else expect(Number.isFinite(value)).toBe(true);
    }),
  );
});

test.each(['f32', 'f16', 'q8', 'q4'] as const)('a row of %s does not depend on the rows around it', (form) => {
  fc.assert(
    fc.property(fc.array(rows(), { minLength: 1, maxLength: 4 }), rows(), (all, other) => {
      const together = stored(form, Float32Array.from(all.flatMap((x) => [...x])), 64);
      for (const [i, x] of all.entries()) {
        const alone = back(stored(form, x, 64), 64),
          among = new Float32Array(64);
        decodeRows(together, 64, i, 1, among);
        expect(among).toEqual(alone);
      }
      const at = all.length - 1,
        rest = back(together, 64).slice(0, 64 * at);
      encodeRows(together, 64, at, other);
      expect(back(together, 64)).toEqual(Float32Array.from([...rest, ...back(stored(form, other, 64), 64)]));
    }),
    { numRuns: 30 },
  );
});

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { apportion } from '@kv/core/shared';

const cases = fc.integer({ min: 1, max: 8 }).chain((n) =>
  fc.record({
    targets: fc.array(fc.double({ min: -20, max: 60, noNaN: true }), { minLength: n, maxLength: n }),
    total: fc.nat(300),
    floor: fc.nat(8),
    caps: fc.array(fc.nat(60), { minLength: n, maxLength: n }),
  }),
);
const sum = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0);
const prop = (
  check: (c: { targets: number[]; total: number; floor: number; caps: number[] }, out: number[]) => void,
): void =>
  fc.assert(
    fc.property(cases, (c) => {
      check(c, apportion(c.targets, c.total, c.floor, c.caps));
    }),
  );

test('whole numbers between the floor and the caps', () =>
  prop(({ caps, floor }, out) =>
    out.forEach((x, i) => {
      expect(Number.isInteger(x)).toBe(true);
      expect(x).toBeGreaterThanOrEqual(Math.min(floor, caps[i]));
      expect(x).toBeLessThanOrEqual(caps[i]);
    }),
  ));
test('the sum is the total where floor and caps allow it, else as near as they do', () =>
  prop(({ total, floor, caps }, out) =>
    expect(sum(out)).toBe(Math.min(sum(caps), Math.max(sum(caps.map((c) => Math.min(floor, c))), total))),
  ));
test('targets that fit and add up are rounded, by less than one each', () =>
  fc.assert(
    fc.property(fc.array(fc.double({ min: 0, max: 40, noNaN: true }), { minLength: 1, maxLength: 8 }), (targets) => {
      const total = Math.round(sum(targets)),
        close = targets.map((t) => t + (total - sum(targets)) / targets.length);
      fc.pre(close.every((t) => t >= 0));
      apportion(
        close,
        total,
        0,
        close.map(() => 100),
      ).forEach((x, i) => expect(Math.abs(x - close[i])).toBeLessThan(1 + 1e-6));
    }),
  ));
test('a larger target gets no less, caps and floor alike, but for one slot of rounding where the floor made them equal', () =>
  fc.assert(
    fc.property(
      fc.array(
        fc.integer({ min: 0, max: 400 }).map((x) => x / 10),
        { minLength: 2, maxLength: 8 },
      ),
      fc.nat(200),
      fc.nat(5),
      (targets, total, floor) => {
        const out = apportion(
          targets,
          total,
          floor,
          targets.map(() => 50),
        );
        targets.forEach((t, i) =>
          targets.forEach((u, j) => {
            if (t > u) expect(out[i]).toBeGreaterThanOrEqual(out[j] - (t <= floor ? 1 : 0));
          }),
        );
      },
    ),
  ));
test('whole targets that fit are kept as they are', () =>
  fc.assert(
    fc.property(fc.array(fc.nat(30), { minLength: 1, maxLength: 8 }), (targets) => {
      expect(
        apportion(
          targets,
          sum(targets),
          0,
          targets.map(() => 30),
        ),
      ).toEqual(targets);
    }),
  ));
test('ties go to the earlier entry', () =>
  expect(apportion([1.5, 1.5, 1.5, 1.5], 6, 0, [9, 9, 9, 9])).toEqual([2, 2, 1, 1]));
test('what a cap turns away goes to the others', () =>
  expect(apportion([10, 10, 10], 30, 0, [4, 20, 20])).toEqual([4, 13, 13]));
test('nothing to share out is no error', () => expect(apportion([], 5, 0, [])).toEqual([]));

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compare, cornerOf, countsOf, holds, layoutOf, mapRows, moveBy, placeAt } from '../src/heat-map.ts';
import type { Frame } from '../src/messages.ts';
import { placeText } from '../src/words.ts';

const around = { token: '', answer: '', bytes: 0, peak: 0, slots: 0, prefillSpeed: 1 };
const frame = (rows: number): fc.Arbitrary<Frame> =>
  fc
    .integer({ min: 1, max: 30 })
    .chain((length) =>
      fc
        .uint8Array({ minLength: rows * length, maxLength: rows * length, max: 1 })
        .map((kept) => ({ ...around, length, kept })),
    );
const layout = fc
  .record({
    width: fc.integer({ min: 0, max: 2000 }),
    positions: fc.integer({ min: 1, max: 5000 }),
    rows: fc.integer({ min: 1, max: 64 }),
  })
  .map(({ width, positions, rows }) => layoutOf(width, positions, rows));

describe('the layout', () => {
  test('a point within a cell is that cell, and cells lie within the map', () => {
    fc.assert(
      fc.property(
        layout,
        fc.nat(),
        fc.nat(),
        fc.double({ min: 0, max: 0.99, noNaN: true }),
        fc.double({ min: 0, max: 0.99, noNaN: true }),
        (made, p, r, dx, dy) => {
          const place = { position: p % made.positions, row: r % made.rows },
            [x, y] = cornerOf(made, place);
          expect(placeAt(made, x + dx * made.cell, y + dy * made.cell)).toEqual(place);
          expect(x >= 0 && y >= 0 && x + made.cell <= made.width && y + made.cell <= made.height).toBe(true);
        },
      ),
    );
  });

  test('what is no cell is nothing', () => {
    const made = layoutOf(300, 100, 16);
    for (const [x, y] of [
      [made.left - 1, 10],
      [made.width + 1, 10],
      [made.left + 1, 1],
      [made.left + 1, -5],
      [made.left + 1, made.height + 10],
      [made.width - 1, made.height - made.bottom - 1],
    ] as const)
      expect(placeAt(made, x, y)).toBeUndefined();
  });

  test('it fits its width from a phone on', () => {
    fc.assert(
      fc.property(fc.integer({ min: 120, max: 3000 }), fc.integer({ min: 1, max: 5000 }), (width, positions) => {
        expect(layoutOf(width, positions, 16).width).toBeLessThanOrEqual(width);
      }),
    );
  });

  test('it fits a height wherever the smallest cells do', () => {
    fc.assert(
      fc.property(layout, fc.integer({ min: 10, max: 1000 }), ({ width, positions, rows }, height) => {
        const smallest = layoutOf(width, positions, rows, 1),
          made = layoutOf(width, positions, rows, height);
        expect([smallest.tall, made.height <= height]).toEqual([1, smallest.height <= height]);
      }),
    );
  });

  test('keys stay inside, and lead back', () => {
    const back = { ArrowLeft: 'ArrowRight', ArrowUp: 'ArrowDown', PageUp: 'PageDown' } as const;
    fc.assert(
      fc.property(
        layout,
        fc.nat(),
        fc.nat(),
        fc.constantFrom(...(Object.keys(back) as (keyof typeof back)[])),
        (made, p, r, key) => {
          const place = { position: p % made.positions, row: r % made.rows },
            to = moveBy(made, place, back[key])!;
          expect(to.position < made.positions && to.row < made.rows).toBe(true);
          const step = key === 'PageUp' ? made.perLine : key === 'ArrowLeft' ? 1 : 0;
          if (place.position + step < made.positions && (key !== 'ArrowUp' || place.row + 1 < made.rows))
            expect(moveBy(made, to, key)).toEqual(place);
        },
      ),
    );
    const made = layoutOf(400, 100, 16);
    expect([
      moveBy(made, { position: 50, row: 3 }, 'Home'),
      moveBy(made, { position: 50, row: 3 }, 'End'),
      moveBy(made, { position: 50, row: 3 }, 'Tab'),
    ]).toEqual([{ position: 0, row: 3 }, { position: 99, row: 3 }, undefined]);
  });
});

describe('what caches hold', () => {
  test('counts, cells and comparisons agree with sets', () => {
    fc.assert(
      fc.property(frame(4), frame(4), (a, b) => {
        const slots = ({ kept, length }: Frame): Set<string> =>
          new Set([...kept].flatMap((one, i) => (one ? [`${Math.floor(i / length)} ${i % length}`] : [])));
        const [inA, inB] = [slots(a), slots(b)],
          both = [...inA].filter((slot) => inB.has(slot)).length;
        expect(compare(a, b)).toEqual({ both, onlyA: inA.size - both, onlyB: inB.size - both });
        for (let position = 0; position < a.length; position++) {
          expect(countsOf(a)[position]).toBe([...inA].filter((slot) => slot.endsWith(` ${position}`)).length);
          for (let row = 0; row < 4; row++) expect(holds(a, { position, row })).toBe(inA.has(`${row} ${position}`));
        }
        expect(holds(a, { position: a.length, row: 0 })).toBeUndefined();
      }),
    );
  });

  test('a place is said in one sentence', () => {
    const shown: Frame = { ...around, length: 2, kept: Uint8Array.of(1, 0, 1, 1, 1, 0, 0, 0) },
      rows = mapRows([1, 3]);
    expect(placeText(shown, { position: 0, row: 3 }, ' X\n', rows[3])).toBe(
      'Token 0 “ X⏎”, layer 1, KV head 2: dropped; 3 of 4 rows keep it',
    );
    expect(placeText(shown, { position: 1, row: 1 }, 'y', rows[1])).toBe(
      'Token 1 “y”, layer 1, KV head 0: kept; 1 of 4 rows keep it',
    );
    expect(placeText(shown, { position: 2, row: 1 }, '.', rows[1])).toBe('Token 2 “.”: not in the cache yet');
    const levels = Uint8Array.of(2, 2, 4, 3, 2, 2, 2, 2);
    expect(placeText({ ...shown, levels }, { position: 1, row: 1 }, 'y', rows[1])).toBe(
      'Token 1 “y”, layer 1, KV head 0: kept in k8v4; 1 of 4 rows keep it',
    );
  });
});

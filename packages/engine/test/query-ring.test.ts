import fc from 'fast-check';
import { expect, test } from 'vitest';
import { QueryRing } from '../src/host/query-ring.ts';
import { Ledger } from '../src/ledger.ts';

const H = 3,
  d = 2;
/** Channel c of head h's query at a position, a number of its own. */
const number = (position: number, h: number, c: number): number => 100 * position + 10 * h + c;
const heads = (positions: readonly number[]): number[] =>
  Array.from({ length: H }, (_, h) => positions.flatMap((p) => [number(p, h, 0), number(p, h, 1)])).flat();

/** Sizes of blocks of queries, in the order in which they pass. */
const passes = fc.record({
  window: fc.integer({ min: 1, max: 9 }),
  blocks: fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 6 }),
});
const filled = (window: number, blocks: readonly number[], ledger = new Ledger()) => {
  const ring = new QueryRing(window, H, d, ledger);
  let next = 0;
  for (const size of blocks) {
    const positions = Uint32Array.from({ length: size }, () => next++);
    ring.push(Float32Array.from(heads([...positions])), positions);
  }
  return { ring, seen: next };
};

test('a ring gives the last queries of every head, oldest first, however they passed', () =>
  fc.assert(
    fc.property(passes, fc.integer({ min: 1, max: 12 }), ({ window, blocks }, count) => {
      const { ring, seen } = filled(window, blocks),
        have = Math.min(count, window, seen),
        positions = Array.from({ length: have }, (_, i) => seen - have + i);
      for (const one of [ring, ring.fork(new Ledger())]) {
        const last = one.last(count);
        expect(last.count).toBe(have);
        expect([...last.positions]).toEqual(positions);
        expect([...last.queries]).toEqual(heads(positions));
      }
    }),
  ));
test('a file holds a ring query by query, and gives it back', () =>
  fc.assert(
    fc.property(passes, ({ window, blocks }) => {
      const { ring, seen } = filled(window, blocks),
        saved = ring.saved(),
        slots = Array.from({ length: Math.min(window, seen) }, (_, i) => i);
      for (const slot of slots) {
        const position = seen - 1 - ((seen - 1 - slot) % window);
        expect(saved.positions[slot]).toBe(position);
        for (let h = 0; h < H; h++)
          for (let c = 0; c < d; c++) expect(saved.queries[(slot * H + h) * d + c]).toBe(number(position, h, c));
      }
      const back = new QueryRing(window, H, d, new Ledger());
      back.restore(saved);
      expect(back.last(window)).toEqual(ring.last(window));
    }),
  ));
test('a ring counts the bytes of its queries, and gives them back', () =>
  fc.assert(
    fc.property(passes, ({ window, blocks }) => {
      const ledger = new Ledger(),
        { ring, seen } = filled(window, blocks, ledger);
      expect(ledger.live).toBe(4 * Math.min(window, seen) * (H * d + 1));
      ring.destroy();
      expect([ledger.live, ledger.allocated]).toEqual([0, 0]);
    }),
  ));

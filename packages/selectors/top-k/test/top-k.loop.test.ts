import { expect, it } from 'vitest';
import fc from 'fast-check';
import { loopBytes } from '../src/top-k-loop.ts';

// The loop by itself, over scores that the laws of views do not have: thousands, on all scales, with many ties.

const memory = new WebAssembly.Memory({ initial: 4, maximum: 65_536, shared: true }),
  { choose } = new WebAssembly.Instance(
    new WebAssembly.Module(Uint8Array.from(atob(loopBytes), (char) => char.charCodeAt(0))),
    { env: { memory } },
  ).exports as { choose: (view: number, own: number, row: number, scratch: number) => void };

/** Returns what the loop lists for one query head, and the row that it says is not finite, counted from 1. */
function chosen(scores: Float32Array, budget: number, first: number, last: number) {
  const n = scores.length,
    stride = Math.max(1024, n + 64),
    [view, slots, count, list, at] = [1024, 1280, 1296, 2048, 2048 + 4 * stride],
    words = new Uint32Array(memory.buffer);
  words.fill(0xdead_beef, 0, (at + 8 * stride) / 4);
  words.set(
    [1, 1, 64, n, 0, n, 0, budget, 0, n, 0, 1, at, stride, list, count, 0, first, last, 0, 0, 0, 0, 0, slots, 0],
    view / 4,
  );
  words[slots / 4] = n;
  new Float32Array(memory.buffer).set(scores, at / 4);
  choose(view, 0, 0, at + 4 * stride);
  return { list: [...words.slice(list / 4, list / 4 + words[count / 4])], bad: words[view / 4 + 21] };
}

/** Returns the slots that a budget keeps: forced ones, then the best, ties to the lower slot. */
function best(scores: Float32Array, budget: number, first: number, last: number): number[] {
  const n = scores.length,
    from = Math.min(first, n),
    to = Math.max(from, n - last),
    open = Array.from({ length: to - from }, (_, i) => from + i),
    taken = from + n - to,
    kept = open.sort((a, b) => scores[b] - scores[a] || a - b).slice(0, Math.max(0, budget - taken));
  return Array.from({ length: n }, (_, slot) => slot).filter(
    (slot) => slot < from || slot >= to || kept.includes(slot),
  );
}

const kinds: Readonly<Record<string, (next: () => number, i: number) => number>> = {
  uniform: (next) => next() - 0.5,
  'on all scales': (next) => (next() < 0.5 ? -1 : 1) * 10 ** (76 * next() - 38),
  'of a few values': (next) => Math.floor(3 * next()),
  'mostly one value': (next) => (next() < 0.9 ? 0.25 : next()),
  ascending: (_, i) => i,
  descending: (_, i) => -i,
  'of pages': (_, i) => ((i >> 4) * 7919) % 101,
};

it.each(Object.keys(kinds))('lists what a sort does: scores %s', (kind) => {
  fc.assert(
    fc.property(
      fc.record({
        n: fc.oneof(fc.integer({ min: 1, max: 600 }), fc.integer({ min: 600, max: 5000 })),
        thousandths: fc.nat(1000),
        first: fc.nat(20),
        last: fc.nat(70),
        seed: fc.nat(0xffff),
      }),
      ({ n, thousandths, first, last, seed }) => {
        let at = seed;
        const next = (): number => ((at = Math.imul(at ^ (at >>> 15), 0x2c1b_3c6d) + 0x9e37_79b9) >>> 0) / 2 ** 32,
          scores = Float32Array.from({ length: n }, (_, i) => kinds[kind](next, i)),
          budget = Math.round((thousandths * n) / 1000);
        expect(chosen(scores, budget, first, last)).toEqual({ list: best(scores, budget, first, last), bad: 0 });
      },
    ),
    { numRuns: 300 },
  );
});

it('says which row has a score that is not finite', () => {
  for (const bad of [NaN, Infinity, -Infinity])
    for (const [n, at] of [
      [1, 0],
      [700, 3],
      [700, 699],
    ]) {
      const scores = new Float32Array(n);
      scores[at] = bad;
      expect(chosen(scores, n, 0, 0).bad).toBe(1);
    }
});

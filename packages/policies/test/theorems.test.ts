import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { apply } from '@kv/cpu';
import type { Policy, Tokens } from '@kv/core';
import { fullTa, taFast } from '../src/index.ts';

const L = 6;
/** One token a word; the value of each anchor is a span of L tokens. */
function tokenise(pieces: readonly string[]): Tokens {
  let end = 0;
  return {
    ids: pieces.map((p) => p.length),
    text: pieces.join(''),
    offsets: pieces.map((p) => [end, (end += p.length)]),
  };
}
/** Filler, then m + 1 anchors each with its value, filler between: the text, and the slots of each value. */
const given = fc.record({
  gaps: fc.array(fc.nat(12), { minLength: 6, maxLength: 6 }),
  seed: fc.integer({ min: 1, max: 9999 }),
  scale: fc.constantFrom(0, 1, 1e3),
});
function scene(gaps: readonly number[], m: number): { readonly tokens: Tokens; readonly spans: readonly number[][] } {
  const pieces: string[] = ['start '],
    spans: number[][] = [];
  for (let a = 0; a <= m; a++) {
    pieces.push(...new Array<string>(gaps[a]).fill('and '), 'key', ': ');
    spans.push(Array.from({ length: L }, (_, k) => pieces.length + k));
    pieces.push(...new Array<string>(L).fill('x9 '));
  }
  pieces.push(...new Array<string>(gaps[m + 1] ?? 3).fill('so '), 'the ', 'end');
  return { tokens: tokenise(pieces), spans };
}
/** Any attention: as accumulated sums or of one query, up to a thousand times a voucher. */
const attention = (n: number, seed: number, scale: number): Float32Array =>
  Float32Array.from({ length: n }, (_, i) => {
    const x = Math.sin(seed * 12.9898 + i * 78.233) * 43758.5453;
    return (x - Math.floor(x)) * scale;
  });
function kept(policy: Policy, tokens: Tokens, budget: number, seed: number, scale: number): readonly number[] {
  const n = tokens.ids.length;
  const weights = { data: attention(n, seed, scale), shape: [1, n] };
  return apply(policy, { tokens, budget, 'attention.accumulated': weights, 'attention.last': weights }).kept![0];
}
const all = (set: readonly number[], of: readonly number[]): boolean => of.every((i) => set.includes(i));

describe.each([
  ['fullTa', fullTa],
  ['taFast', taFast],
] as const)('%s', (_, make) => {
  test('Theorem 2: with K_p >= L a span of L tokens survives any attention scores', () => {
    fc.assert(
      fc.property(given, fc.integer({ min: 0, max: 3 }), ({ gaps, seed, scale }, more) => {
        const { tokens, spans } = scene(gaps, 0);
        expect(all(kept(make({ reach: L, slots: L + more }), tokens, 3 + L + more, seed, scale), spans[0])).toBe(true);
      }),
      { numRuns: 60 },
    );
  });
  test('Theorem 4: m decoys are tolerated while K_p >= (m + 1) L', () => {
    fc.assert(
      fc.property(given, fc.integer({ min: 0, max: 4 }), ({ gaps, seed, scale }, m) => {
        const { tokens, spans } = scene(gaps, m),
          set = kept(make({ reach: L, slots: (m + 1) * L }), tokens, 3 + (m + 1) * L, seed, scale);
        for (const span of spans) expect(all(set, span)).toBe(true);
      }),
      { numRuns: 60 },
    );
  });
});
test('the default pool of 4 does not give Theorem 2 for L = 6: attention above the vouchers takes a part of the span', () => {
  const { tokens, spans } = scene([12, 12, 0, 0, 0, 0], 0);
  expect(all(kept(fullTa({ reach: L }), tokens, 16, 7, 1e3), spans[0])).toBe(false);
  expect(all(kept(fullTa({ reach: L, slots: L }), tokens, 16, 7, 1e3), spans[0])).toBe(true);
});
test('one slot too few for the decoys, and a span is cut', () => {
  const { tokens, spans } = scene([5, 5, 5, 0, 0, 0], 1),
    room = (slots: number): boolean =>
      spans.every((span) => all(kept(taFast({ reach: L, slots }), tokens, 3 + slots, 1, 1), span));
  expect([room(2 * L), room(2 * L - 1)]).toEqual([true, false]);
});

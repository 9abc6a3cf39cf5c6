import fc from 'fast-check';
import ndarray from 'ndarray';
import { describe, expect, test } from 'vitest';
import type { Tokens } from '@kv/core';
import { apply } from '@kv/cpu';
import { each, scene, sceneSpecs, scorerLaws } from '@kv/laws';
import { phases } from '../src/index.ts';
import { attentionOracle, average, phasesOracle } from './window.oracle.ts';
import type { Vector } from './window.oracle.ts';

/** A stretch of tokens of one phase; a role begins a turn, with a silent token and its name before the stretch. */
interface Stretch {
  readonly role?: string;
  readonly tag?: string;
  readonly words: number;
}
/** Tokens of stretches, and the phase of each of them. */
function told(stretches: readonly Stretch[]): { readonly tokens: Tokens; readonly phases: readonly string[] } {
  const ids: number[] = [],
    offsets: [number, number][] = [],
    names: string[] = [];
  let text = '',
    role = '';
  const say = (word: string, phase: string): void => {
    ids.push(ids.length);
    offsets.push([text.length, text.length + word.length]);
    names.push(phase);
    text += word;
  };
  for (const { role: next, tag, words } of stretches) {
    if (next !== undefined) {
      role = next;
      for (const word of ['', next, '\n']) say(word, role);
    }
    const phase = tag === undefined ? role : `${role} ${tag}`;
    if (tag !== undefined) say(`<${tag}>`, phase);
    for (let i = 0; i < words; i++) say(' word', phase);
    if (tag !== undefined) say(`</${tag}>`, phase);
  }
  return { tokens: { ids, text, offsets }, phases: names };
}
const some: fc.Arbitrary<readonly Stretch[]> = fc.array(
  fc.record(
    {
      role: fc.constantFrom('user', 'assistant', 'tool'),
      tag: fc.constantFrom('think', 'tool_call'),
      words: fc.nat(4),
    },
    { requiredKeys: ['words'] },
  ),
  { minLength: 1, maxLength: 6 },
);
const short = (all: ReturnType<typeof told>, length: number): Tokens => ({
  text: all.tokens.text.slice(0, all.tokens.offsets[length - 1]?.[1] ?? 0),
  ids: all.tokens.ids.slice(0, length),
  offsets: all.tokens.offsets.slice(0, length),
});

const talk = told([{ role: 'user', words: 2 }, { role: 'assistant', tag: 'think', words: 2 }, { words: 9 }]);
describe('phases', () =>
  each(
    scorerLaws(phases({ window: 4, each: 2, recent: 1 }), {
      runs: 30,
      signals: (signal, { at }) => (signal.id === 'tokens' ? short(talk, at.length) : undefined),
    }),
    test,
  ));

const W = 6;
const onTexts = (
  check: (c: {
    readonly heads: readonly (readonly (readonly number[])[])[];
    readonly phases: readonly string[];
    score(options: Parameters<typeof phases>[0]): Float32Array;
  }) => void,
): void =>
  fc.assert(
    fc.property(
      sceneSpecs({ ragged: false, layers: 1 }).filter((s) => s.vectors !== 'long'),
      some.map(told),
      (spec, text) => {
        const length = Math.min(text.phases.length, spec.slots + spec.evicted);
        fc.pre(length >= W && text.tokens.offsets[length - 1][0] < text.tokens.offsets[length - 1][1]); // a role is known once named
        const { at, keys, positions } = scene({
            ...spec,
            slots: length - Math.min(spec.evicted, length - 1),
            evicted: Math.min(spec.evicted, length - 1),
          }).layers[0],
          { kvHeads: G, queryHeads: H, slots: n, headDim: d } = at,
          q = Float32Array.from({ length: H * W * d }, (_, i) => 2 * Math.sin(i * 1.7)),
          vector = (x: Float32Array, i: number): Vector =>
            ndarray(Float64Array.from(x.subarray(i * d, (i + 1) * d)), [d]);
        const heads = Array.from({ length: H }, (_, h) => {
          const g = Math.floor((h * G) / H),
            placed = [...positions.subarray(g * n, (g + 1) * n)];
          return Array.from({ length: W }, (_, i) =>
            attentionOracle(
              vector(q, h * W + i),
              placed.map((_, j) => vector(keys, g * n + j)),
              placed,
              length - W + i,
            ),
          );
        });
        check({
          heads,
          phases: text.phases.slice(length - W, length),
          score: (options) =>
            apply(phases({ window: W, ...options }), {
              queries: { data: q, shape: [H, W, d] },
              keys: { data: keys, shape: [G, n, d] },
              positions: { data: positions, shape: [G, n] },
              tokens: short(text, length),
              at: { length, queryHeads: H, headDim: d },
            }).scores!.data as Float32Array,
        });
      },
    ),
    { numRuns: 60 },
  );
const near = (got: Float32Array, want: readonly (readonly number[])[]): void =>
  want.flat().forEach((x, i) => expect(Math.abs(got[i] - x)).toBeLessThan(1e-5));

test('the largest mean over phases agrees with its oracle', () =>
  onTexts(({ heads, phases: names, score }) => {
    for (const each of [1, 2, W])
      near(
        score({ each }),
        heads.map((rows) => phasesOracle(rows, names, each)),
      );
  }));
test('where all speak as one, scores are the mean attention of the newest queries', () =>
  onTexts(({ heads, phases: names, score }) => {
    fc.pre(new Set(names).size === 1);
    near(
      score({ each: 2 }),
      heads.map((rows) => rows[0].map((_, j) => average(rows.slice(-2).map((row) => row[j])))),
    );
  }));
test('what another phase looks at is not outvoted by the phase that speaks now', () => {
  const { tokens, phases: names } = told([
      { role: 'user', words: 1 },
      { role: 'assistant', words: 2 },
    ]),
    n = names.length,
    vectors = (at: (p: number) => readonly number[]) => ({
      data: Float32Array.from(names.flatMap((_, p) => at(p))),
      shape: [1, n, 2],
    });
  const first = (told: Tokens): number =>
    apply(phases({ window: n, each: 4, recent: 0 }), {
      queries: vectors((p) => (names[p] === 'user' ? [9, 0] : [0, 9])),
      keys: vectors(
        (p) =>
          [
            [9, 0],
            [0, 9],
          ][p] ?? [0, 0],
      ),
      tokens: told,
    }).scores!.data[0];
  expect(first(tokens)).toBeGreaterThan(0.9);
  // a name that is no role begins no turn: all is one phase
  expect(first({ ...tokens, text: tokens.text.replace('assistant', 'anonymous') })).toBeLessThan(0.1);
});
test('names of tags are checked', () => {
  expect(() => phases({ tags: 'a b' })).toThrow(
    "phases: tags must be names of letters, digits, '_', '.' and '-' between commas, got 'a b'",
  );
  expect(phases({ tags: '' }).label).toBe('phases(tags="")');
});

import { spaceChannels, stateNumbers } from '@kv/checkpoints';
import type { SpaceWeights, StateSpace } from '@kv/checkpoints';
import { spaceRule, stateSpace } from '@kv/engine';
import { spaceOracle } from '@kv/engine-testing/state-space.oracle';
import { mulberry } from '@kv/core/shared';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { placeSpace } from '../src/space-code.ts';
import { bits, chunk, mixerInModule, near } from './mixer-in-module.ts';
import { ThreadPool } from '../src/thread-pool.ts';
import { modules } from './modules.ts';

interface Case {
  readonly mixer: StateSpace;
  readonly weights: SpaceWeights;
  /** `[z | x | B | C | dt]` of some tokens. */
  readonly rows: Float32Array;
  readonly width: number;
}

/** Heads and memories of widths that are a multiple of `by`. */
const cases = (by: number): fc.Arbitrary<Case> =>
  fc
    .record({
      groups: fc.integer({ min: 1, max: 3 }),
      times: fc.integer({ min: 1, max: 3 }),
      headDim: fc.integer({ min: 1, max: 40 / by }).map((n) => n * by),
      stateDim: fc.integer({ min: 1, max: 12 / by }).map((n) => n * by),
      kernel: fc.integer({ min: 1, max: 5 }),
      timeStep: fc.constantFrom<(readonly [number, number])[]>([0, Infinity], [0.3, 0.9]),
      tokens: fc.integer({ min: 1, max: 14 }),
      seed: fc.integer(),
    })
    .map(({ times, tokens, seed, ...shape }) => {
      const heads = shape.groups * times,
        mixer = { ...shape, kind: 'stateSpace' as const, heads, bias: false, convolutionBias: true },
        channels = spaceChannels(mixer),
        width = heads * shape.headDim + channels + heads,
        draw = mulberry(seed),
        numbers = (length: number, size: number): Float32Array =>
          Float32Array.from({ length }, () => size * (2 * draw() - 1));
      return {
        ...{ mixer, width, rows: numbers(tokens * width, 3) },
        weights: {
          norm: new Float32Array(0),
          input: { outputs: width, inputs: 0, parts: [] },
          kernel: numbers(channels * shape.kernel, 1),
          kernelBias: numbers(channels, 1),
          decay: numbers(heads, 1).map((x) => -Math.abs(x)),
          timeBias: numbers(heads, 2),
          skip: numbers(heads, 1),
        },
      };
    });
const ruleOf = ({ weights, mixer }: Case): ReturnType<typeof spaceRule> => spaceRule(weights, mixer);
/** Returns what the host makes of the rows in blocks of `block`, and the state after them. */
const onHost = (one: Case, block = Infinity): { readonly out: Float32Array; readonly state: Float32Array } => {
  const state = new Float32Array(stateNumbers(one.mixer)),
    parts: number[] = [],
    size = Math.min(block, one.rows.length / one.width) * one.width;
  for (let at = 0; at < one.rows.length; at += size)
    parts.push(...stateSpace(one.rows.subarray(at, at + size), ruleOf(one), state));
  return { out: Float32Array.from(parts), state };
};

test('the state space is that of the float64 oracle, and the same to the bit in blocks of any size', () => {
  fc.assert(
    fc.property(cases(1), fc.integer({ min: 1, max: 9 }), (one, block) => {
      const { weights, mixer } = one,
        { out, state } = onHost(one),
        want = spaceOracle(chunk(one.rows, one.width), {
          ...mixer,
          kernel: chunk(weights.kernel, mixer.kernel),
          bias: [...weights.kernelBias!],
          decay: [...weights.decay],
          timeBias: [...weights.timeBias],
          skip: [...weights.skip],
        }).flat();
      expect(near(out, Float32Array.from(want))).toBe(true);
      const parts = onHost(one, block);
      expect(bits(parts.out, parts.state)).toEqual(bits(out, state));
    }),
    { numRuns: 40 },
  );
});

const pools = await Promise.all(
  modules.flatMap(([name, fast]) =>
    [1, 2].map(async (threads) => [name, threads, await ThreadPool.start(fast, threads, () => {})] as const),
  ),
);

describe.each(pools)('in the module, %s, %i threads', (_name, _threads, pool) => {
  const run = (one: Case, block: number, apart = false): ReturnType<typeof mixerInModule> =>
    mixerInModule(pool, one.rows, one.width, (code, arena, x) => code.space(x, placeSpace(arena, ruleOf(one), 0)), {
      ...{ block, apart, given: one.mixer.heads * one.mixer.headDim, numbers: stateNumbers(one.mixer) },
    });

  const all = ({ out, states }: ReturnType<typeof run>): readonly string[] => bits(out, ...states);

  test('it is that of the host, to the bit where nothing is fused, in blocks of any size and for tokens of several sequences', () => {
    fc.assert(
      fc.property(cases(4), fc.integer({ min: 1, max: 9 }), (one, block) => {
        const { out, state } = onHost(one),
          whole = run(one, 64);
        if (pool.fast.form === 0) expect(all(whole)).toEqual(bits(out, state));
        else expect([near(whole.out, out), near(whole.states[0], state)]).toEqual([true, true]);
        expect(all(run(one, block))).toEqual(all(whole));
        const alone = chunk(one.rows, one.width).map((row) => run({ ...one, rows: Float32Array.from(row) }, 1));
        expect(all(run(one, Infinity, true))).toEqual(
          bits(Float32Array.from(alone.flatMap((each) => [...each.out])), ...alone.flatMap((each) => each.states)),
        );
      }),
      { numRuns: 10 },
    );
  });
});

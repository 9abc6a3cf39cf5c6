import { deltaChannels, stateNumbers } from '@kv/checkpoints';
import type { DeltaWeights, GatedDelta } from '@kv/checkpoints';
import { deltaRule, gatedDelta, gateOutputs } from '@kv/engine';
import { deltaOracle } from '@kv/engine-testing/gated-delta.oracle';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BytecodeWriter } from '../src/bytecode-writer.ts';
import { placeDelta } from '../src/delta-code.ts';
import { install, sizesOf } from '../src/install.ts';
import { PassBuffers } from '../src/pass-buffers.ts';
import { nowhere } from '../src/pass-run.ts';
import { copyRows, rowsAt } from '../src/rows.ts';
import { ThreadPool } from '../src/thread-pool.ts';
import { WeightArena } from '../src/weight-arena.ts';
import { bits, chunk, mixerInModule, near } from './mixer-in-module.ts';
import { modules } from './modules.ts';

interface Case {
  readonly mixer: GatedDelta;
  readonly weights: Omit<DeltaWeights, 'norm' | 'input'>;
  /** `[q | k | v | z | b | a]` of some tokens. */
  readonly rows: Float32Array;
  readonly width: number;
}
const EPS = 1e-5,
  numbers = (length: number, size: number): fc.Arbitrary<Float32Array> =>
    fc.integer({ min: 1, max: 2 ** 31 - 1 }).map((seed) => {
      let state = seed;
      return Float32Array.from({ length }, () => {
        state = (Math.imul(state, 48_271) + 11) >>> 0;
        return size * (state / 2 ** 31 - 1);
      });
    });

/** Heads of widths that are a multiple of `by`. */
const cases = (by: number): fc.Arbitrary<Case> =>
  fc
    .record({
      kind: fc.constant('gatedDelta' as const),
      keyHeads: fc.integer({ min: 1, max: 2 }),
      times: fc.integer({ min: 1, max: 3 }),
      keyDim: fc.integer({ min: 1, max: 12 / by }).map((n) => n * by),
      valueDim: fc.integer({ min: 1, max: 24 / by }).map((n) => n * by),
      kernel: fc.integer({ min: 1, max: 5 }),
      tokens: fc.integer({ min: 1, max: 14 }),
    })
    .chain(({ times, tokens, ...shape }) => {
      const mixer = { ...shape, valueHeads: shape.keyHeads * times },
        { valueHeads, valueDim, kernel } = mixer,
        channels = deltaChannels(mixer),
        width = channels + valueHeads * valueDim + 2 * valueHeads;
      return fc.record({
        mixer: fc.constant(mixer),
        width: fc.constant(width),
        rows: numbers(tokens * width, 3),
        weights: fc.record({
          kernel: numbers(channels * kernel, 1),
          decay: numbers(valueHeads, 1).map((list) => list.map((x) => -Math.abs(x))),
          timeBias: numbers(valueHeads, 2),
          gain: numbers(valueDim, 2),
          keyHeadOf: fc.constantFrom('grouped', 'tiled'),
        }),
      });
    });
const ruleOf = ({ weights, mixer }: Case) => deltaRule(weights as DeltaWeights, mixer, EPS);
/** Returns what the host makes of the rows in blocks of `block`, and the state after them. */
const onHost = (one: Case, block = Infinity): { readonly out: Float32Array; readonly state: Float32Array } => {
  const state = new Float32Array(stateNumbers(one.mixer)),
    parts: Float32Array[] = [],
    size = Math.min(block, one.rows.length / one.width) * one.width;
  for (let at = 0; at < one.rows.length; at += size)
    parts.push(gatedDelta(one.rows.subarray(at, at + size), ruleOf(one), state));
  return { out: Float32Array.from(parts.flatMap((part) => [...part])), state };
};

test('the gated delta rule is that of the float64 oracle, and the same to the bit in blocks of any size', () => {
  fc.assert(
    fc.property(cases(1), fc.integer({ min: 1, max: 9 }), (one, block) => {
      const { keyHeads, valueHeads, kernel } = one.mixer,
        { weights } = one,
        { out, state } = onHost(one),
        want = deltaOracle(chunk(one.rows, one.width), {
          ...one.mixer,
          eps: EPS,
          kernel: chunk(weights.kernel, kernel),
          decay: [...weights.decay],
          timeBias: [...weights.timeBias],
          gain: [...weights.gain],
          keyHeadOf: (h) => (weights.keyHeadOf === 'tiled' ? h % keyHeads : Math.floor(h / (valueHeads / keyHeads))),
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
  const inModule = (one: Case, block: number, apart = false): ReturnType<typeof mixerInModule> =>
    mixerInModule(pool, one.rows, one.width, (code, arena, x) => code.delta(x, placeDelta(arena, ruleOf(one), 0)), {
      ...{ block, apart, given: one.mixer.valueHeads * one.mixer.valueDim, numbers: stateNumbers(one.mixer) },
    });

  /** Form 0 fuses no sum with its product, as the host does not. */
  const plain = pool.fast.form === 0;

  test('it is that of the host, to the bit where nothing is fused, in blocks of any size and for tokens of several sequences', () => {
    fc.assert(
      fc.property(cases(4), fc.integer({ min: 1, max: 9 }), (one, block) => {
        const { out, state } = onHost(one),
          whole = inModule(one, 64),
          parts = inModule(one, block);
        if (plain) expect(bits(whole.out, ...whole.states)).toEqual(bits(out, state));
        else
          for (const [a, b] of [
            [whole.out, out],
            [whole.states[0], state],
          ] as const)
            expect(near(a, b)).toBe(true);
        expect(bits(parts.out, ...parts.states)).toEqual(bits(whole.out, ...whole.states));
        const alone = chunk(one.rows, one.width).map((row) => inModule({ ...one, rows: Float32Array.from(row) }, 1)),
          several = inModule(one, Infinity, true);
        expect(bits(several.out, ...several.states)).toEqual(
          bits(Float32Array.from(alone.flatMap((each) => [...each.out])), ...alone.flatMap((each) => each.states)),
        );
      }),
      { numRuns: 10 },
    );
  });

  test.each([1, 4, 6])('output gates of %i numbers each are those of the host to the bit', (run) => {
    const width = 12 * run,
      x = Float32Array.from({ length: width }, (_, i) => Math.sin(i)),
      gate = Float32Array.from({ length: 12 }, (_, i) => 200 * Math.sin(i * i) ** 5),
      arena = new WeightArena(pool, true),
      buffers = new PassBuffers(pool, false),
      code = new BytecodeWriter(sizesOf(pool), 1),
      places = [code.stream.value(width, true), code.stream.value(12, true)];
    const out = code.outputGate(places[0], places[1], width, run),
      loaded = install(pool, arena, code),
      rooms = buffers.work.for(loaded.layout),
      none = { rotary: 0, cos: new Float32Array(0), sin: new Float32Array(0) };
    for (const [i, data] of [x, gate].entries()) copyRows(data, data.length, rowsAt(pool.heap, rooms, places[i], 1), 1);
    pool.call({ ...buffers.command(loaded, 1, none, { caches: [], states: [] }), ...nowhere, position: 0 });
    expect(rowsAt(pool.heap, rooms, out, 1).data.subarray(0, width)).toEqual(gateOutputs(x, gate));
    buffers.free();
    arena.free();
  });
});

import {
  as,
  attentionAccumulated,
  attentionBlock,
  attentionMax,
  attentionWindow,
  compose,
  freeze,
  hide,
  id,
  scorer,
} from '@kv/core';
import { rowMajorNumbers } from '@kv/core/engine';
import type { HostTensor } from '@kv/core/engine';
import type { HookPiece, LayerContext, Policy } from '@kv/core';
import { mulberry } from '@kv/core/shared';
import { wasmRuntime } from '@kv/engine-wasm';
import { relative } from '@kv/engine-testing/run';
import { fixture } from '@kv/model-testing/fixture';
import { topK } from '@kv/selectors-top-k';
import fc from 'fast-check';
import { afterAll, assert, describe, expect, test } from 'vitest';
import { loadModel, Sequence } from '../src/index.ts';
import type { HostModel } from '../src/index.ts';
import { modules } from './modules.ts';

const newest = modules.at(-1)![1]; // form 0 is available wherever tests run

/** A view that shows every slot, by a mask: passes of the prompt run layer by layer, as they are defined. */
const layered = hide('layered', { during: 'prefill' }, ({ at: { slots }, ops }) => ({
  mask: ops.from({ data: new Float32Array(slots).fill(1), shape: [1, slots] }),
}))();

/** A number of all that a hook knows of its layer. */
const contextOf = ({ layer, step, promptLength, length, slots, budget }: LayerContext): number =>
  [layer, step, promptLength, length, slots, budget].reduce((sum, x) => (31 * sum + x) % 65521);

interface Bound {
  readonly sinks: number;
  readonly kind: 'share' | 'any' | 'before 0' | 'beyond the query' | 'a fraction';
  readonly share: number;
  readonly during: 'prefill' | 'both';
}
/** A third party's view, which differs from layer to layer. */
const bounded = ({ sinks, kind, share, during }: Bound): HookPiece =>
  hide('bounded', { during }, ({ at }) => {
    const seed = contextOf(at);
    if (mulberry(seed)() < 0.4) return {};
    const any = (t: number): number => Math.floor(mulberry(t + seed)() * t);
    const lower = {
      share: (t: number) => Math.floor(share * t),
      any,
      'before 0': () => -3,
      'beyond the query': (t: number) => (t % 3 === 0 ? Infinity : any(t)),
      'a fraction': (t: number) => share * t,
    }[kind];
    return { sinks, lower };
  })();

interface Frozen {
  readonly sinks: number;
  readonly share: number;
  readonly copies: boolean;
}
/** A third party's freeze, which does not grow with depth. */
const frozen = ({ sinks, share, copies }: Frozen): HookPiece =>
  freeze('frozen', { copies: () => copies }, (at) => ({
    sinks,
    below: (share + mulberry(contextOf(at))() - 0.2) * at.promptLength,
  }))();

/** A scorer that notes what events read of attention, by signal and layer. */
const probe = (seen: Map<string, Float32Array[]>, needsFullPrompt: boolean) =>
  scorer(
    'probe',
    {
      needsFullPrompt,
      needs: [
        as('mean', attentionWindow(8)),
        as('most', attentionMax(4)),
        as('sum', attentionAccumulated),
        as('newest', attentionBlock),
      ],
    },
    ({ at: { layer, slots }, ops, ...attention }) => {
      for (const name of ['mean', 'most', 'sum', 'newest'] as const) {
        const key = `${name} ${layer}`;
        seen.set(key, [...(seen.get(key) ?? []), Float32Array.from(rowMajorNumbers(attention[name] as HostTensor))]);
      }
      // rounding must not decide what stays
      return ops.from({ data: Float32Array.from({ length: slots }, (_, i) => (i * 7919) % 1009), shape: [1, slots] });
    },
  )();

interface Case {
  readonly n: number;
  readonly block: number;
  readonly bounds: readonly Bound[];
  readonly frozen: Frozen | undefined;
  readonly watched: 'no' | 'block by block' | 'at the end';
}
/** Even shares: fast-check's own reals are mostly next to 0. */
const percent = fc.noBias(fc.integer({ min: 0, max: 100 })).map((x) => x / 100);
const cases = (most: number): fc.Arbitrary<Case> =>
  fc.record({
    n: fc.noBias(fc.integer({ min: 1, max: most })),
    block: fc.constantFrom(most, 1 + Math.floor(most / 3), 1 + Math.floor(most / 40)),
    bounds: fc.array(
      fc.record({
        sinks: fc.constantFrom(-2, 0, 3, 4.5, 100),
        kind: fc.constantFrom('share', 'any', 'before 0', 'beyond the query', 'a fraction'),
        share: percent,
        during: fc.constantFrom('prefill', 'both'),
      } as const),
      { maxLength: 2 },
    ),
    frozen: fc.option(
      fc.record({
        sinks: fc.constantFrom(1, 4, 60),
        share: percent,
        copies: fc.boolean(),
      }),
      { nil: undefined },
    ),
    watched: fc.constantFrom('no', 'block by block', 'at the end'),
  });

interface Outcome {
  readonly numbers: readonly (readonly [name: string, numbers: Float32Array])[];
  readonly passes: readonly number[];
}
async function run(
  model: HostModel,
  { n, block, bounds, frozen: ice, watched }: Case,
  ...more: HookPiece[]
): Promise<Outcome> {
  const seen = new Map<string, Float32Array[]>(),
    hooks = [...bounds.map(bounded), ...(ice ? [frozen(ice)] : []), ...more],
    policy = (
      watched === 'no' ? compose(id, ...hooks) : compose(probe(seen, watched === 'at the end'), topK(), ...hooks)
    ) as Policy,
    sequence = new Sequence(model),
    ids = Array.from({ length: n }, (_, i) => (i * 37 + (i >> 3)) % model.config.vocab);
  await sequence.prefill(ids, { policy, block, rows: 3, ...(watched !== 'no' && { budget: Math.ceil(0.2 * n) }) });
  const { fusedPasses = 0, layeredPasses = 0 } = sequence.memory.caches.context.counters,
    logits = [...(await sequence.logits())];
  for (const token of [5, 6]) {
    await sequence.step(token);
    logits.push((await sequence.logits())[0]);
  }
  const { layers } = await sequence.memory.caches.snapshot();
  sequence.destroy();
  return {
    passes: [fusedPasses, layeredPasses],
    numbers: [
      ...logits.map((row) => ['logits', row] as const),
      ...layers.flatMap(({ slots, ring, accumulated }, l) =>
        Object.entries({ ...slots, queries: ring?.queries, sums: accumulated?.sums }).flatMap(([name, x]) =>
          x instanceof Float32Array ? [[`${name} ${l}`, x] as const] : [],
        ),
      ),
      ...[...seen].flatMap(([name, all]) => all.map((x) => [name, x] as const)),
    ],
  };
}

describe.each([
  ['8 layers', 'embedded', 520, 10],
  ['windows, a soft cap and groups', fixture('gemma2'), 90, 40],
] as const)('%s', (_, path, most, numRuns) => {
  const loaded = loadModel(path, { runtime: wasmRuntime(newest, { threads: 1, exact: true }) });
  afterAll(async () => (await loaded).destroy());

  test('under bounds and frozen rows a prompt is fused: numbers of the pass layer by layer, and tokens go on', async () => {
    const model = await loaded;
    await fc.assert(
      fc.asyncProperty(cases(most), async (one) => {
        const got = await run(model, one),
          want = await run(model, one, layered);
        expect(got.passes[1]).toBe(0);
        expect(want.passes[0]).toBe(0);
        expect(got.numbers.map(([name]) => name)).toEqual(want.numbers.map(([name]) => name));
        for (const [i, [name, numbers]] of got.numbers.entries()) {
          const [, other] = want.numbers[i];
          expect(numbers.length, name).toBe(other.length);
          if (other.some((x) => x !== 0)) expect(relative(numbers, other), name).toBeLessThan(1e-4);
          else expect(numbers, name).toEqual(other);
        }
      }),
      { numRuns },
    );
  });
});

test.each([
  ['NaN', () => NaN, 'bad, layer 1: expected the first visible position as a position, got NaN'],
  [
    'a text',
    () => '3' as unknown as number,
    "bad, layer 1: expected the first visible position as a position, got '3'",
  ],
  ['an error', () => assert.fail('no bound'), 'bad, layer 1: no bound'],
])('a bound that is %s is one error', async (_, lower, message) => {
  const model = await loadModel(fixture('gemma2'), { runtime: wasmRuntime(newest, { threads: 1, exact: true }) }),
    bad = hide('bad', { during: 'prefill' }, ({ at: { layer } }) => (layer === 1 ? { lower } : {}))();
  for (const more of [[], [layered]]) {
    const prefill = new Sequence(model).prefill([1, 2, 3], { policy: compose(id, bad, ...more) as Policy });
    await expect(prefill).rejects.toThrow(message);
  }
  model.destroy();
});

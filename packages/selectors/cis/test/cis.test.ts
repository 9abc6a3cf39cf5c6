import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compose, mandatory, view } from '@kv/core';
import { apply, cpu, readCpu } from '@kv/cpu';
import { compile, emptyDraft, isState, runSteps } from '@kv/core/engine';
import { sumOf } from '@kv/core/shared';
import type { Piece, Tensor, ViewHook } from '@kv/core';
import { each, kernelLaws, scorerLaws, sharingLaws, viewLoopLaws } from '@kv/laws';
import { topK } from '@kv/selectors-top-k';
import { activeDots, cis, queryKeyProducts, newestKey } from '../src/index.ts';
import { cisOracle } from './cis.oracle.ts';
import type { Settings } from './cis.oracle.ts';

describe('queryKeyProducts', () => {
  each(scorerLaws(queryKeyProducts(), { runs: 40 }), test);
});
test('dots of heads of different length have the lengths of their heads', () => {
  const { ops } = cpu,
    lengths = ops.from({ data: Uint32Array.of(2, 1), shape: [2] }, 'u32'),
    at = {
      layer: 0,
      layers: 1,
      queryHeads: 4,
      kvHeads: 2,
      headDim: 1,
      step: 0,
      promptLength: 2,
      length: 2,
      slots: 2,
      aligned: false,
      budget: 2,
      selectRows: 2,
    };
  const read = ({ id }: { readonly id: string }): Tensor =>
    id === 'queries'
      ? ops.from({ data: new Float32Array(4).fill(1), shape: [4, 1, 1] })
      : id === 'keys'
        ? ops.from({ data: new Float32Array(4).fill(1), shape: [2, 2, 1] }, 'f32', lengths)
        : ops.from({ data: Uint32Array.of(0, 1, 0, 0), shape: [2, 2] }, 'u32', lengths);
  const layer = { at, budgets: [2, 2], read },
    { scores } = runSteps(compile(queryKeyProducts()).steps, [layer], ops, [emptyDraft(layer, ops)])[0];
  expect(Array.from(readCpu(scores!).lengths!)).toEqual([2, 2, 1, 1]);
});
describe('cis', () => {
  each(
    sharingLaws((threshold) => cis({ threshold, sinks: 1, local: 1, block: 2 }), { runs: 30 }),
    test,
  );
});
describe('cis with blocks of several fields', () => {
  each(
    sharingLaws((threshold) => cis({ threshold, sinks: 0, local: 0, block: 30, dilation: 0 }), { runs: 15 }),
    test,
  );
});
describe('cis before rotation', () => {
  each(
    sharingLaws((threshold) => cis({ threshold, compare: 'unrotated', sinks: 1, local: 1, block: 3 }), { runs: 20 }),
    test,
  );
});
describe('cis by hidden states', () => {
  each(
    sharingLaws((threshold) => cis({ threshold, compare: 'hidden', sinks: 1, local: 1, block: 3 }), { runs: 20 }),
    test,
  );
});
describe('cis by keys', () => {
  each(
    sharingLaws((threshold) => cis({ threshold, compare: 'keys', sinks: 1, local: 1, block: 3 }), { runs: 20 }),
    test,
  );
});
describe('cis among queries that retrieved', () => {
  each(
    sharingLaws((threshold) => cis({ threshold, among: 'retrievers', sinks: 1, local: 1, block: 4 }), { runs: 20 }),
    test,
  );
});
describe('newestKey', () => {
  each(
    kernelLaws(newestKey, {
      make: ({ rows, slots, seed }) => ({
        inputs: {
          keys: {
            data: Float32Array.from({ length: rows * (slots + 1) * 3 }, (_, i) => Math.sin(i + seed)),
            shape: [rows, slots + 1, 3],
          },
          counts: {
            data: Float32Array.from({ length: rows }, (_, g) => 1 + ((g + seed) % (slots + 1))),
            shape: [rows, 1],
          },
        },
        params: { heads: 2 * rows },
      }),
    }),
    test,
  );
});

describe.each([
  { block: 5, threshold: 0.7, dilation: 2, local: 1 },
  { block: 9, threshold: 0.6, among: 'retrievers' },
  { block: 15, threshold: 0.5, dilation: 0, strongest: 5, compare: 'keys' }, // in two fields
] as const)('loops of queryKeyProducts, topK and cis, %j', (options) => {
  const retrieves = compose(queryKeyProducts(), mandatory({ sinks: 2, recent: 5 }), topK()),
    policy = view(compose(retrieves, cis({ sinks: 2, local: 5, ...options })), { budget: 32 });
  each(viewLoopLaws(policy, { runs: 8, slots: 80, steps: 18 }), test);
});
test('a view that compares queries before rotation has no loop', () => {
  const policy = view(compose(queryKeyProducts(), topK(), cis({ compare: 'unrotated' })));
  expect(() => viewLoopLaws(policy).shown()).toThrow('expected a view whose pieces all have loops');
});

const noise =
  (seed: number) =>
  (i: number): number => {
    const x = Math.sin(seed * 12.9898 + i * 78.233) * 43758.5453;
    return Math.fround((x - Math.floor(x)) * 2 - 1);
  };
const H = 2,
  D = 3;
/** Channels 0 and 1 turn by 0.7 a position, channel 2 stays. */
const angles = (positions: Uint32Array) => ({
  cos: Float32Array.from(positions, (p) => Math.cos(0.7 * p)),
  sin: Float32Array.from(positions, (p) => Math.sin(0.7 * p)),
});
/** The same as a product of complex numbers, in float64. */
const unturned = ([x, y, z]: readonly number[], position: number): number[] => {
  const by = -0.7 * position;
  return [x * Math.cos(by) - y * Math.sin(by), x * Math.sin(by) + y * Math.cos(by), z];
};
interface Run {
  readonly seen: readonly (readonly (readonly number[])[])[];
  readonly retrieved: readonly number[];
}
/**
 * Decodes with the policy in a view, one KV head of two query heads: what each step sees, `[step][head]`, and
 * retrievals by head.
 */
function decode(
  queries: readonly (readonly (readonly number[])[])[],
  keys: readonly (readonly number[])[],
  sizes: readonly number[],
  first: number,
  policy: Piece<'start', 'kept'>,
  budget: number,
  hidden: readonly (readonly number[])[] = [],
): Run {
  const hook = compile(view(policy, { budget })).hooks('view')[0] as ViewHook,
    states = new Map<string, Tensor>(),
    { ops } = cpu;
  /** Position state has a column for every token seen; new ones are 0. */
  const grown = (id: string, n: number): Tensor | undefined => {
    const old = states.get(id);
    if (!old || !id.startsWith('state.cis.sets')) return old;
    const { data, shape } = readCpu(old),
      out = new Float32Array(H * n);
    for (let h = 0; h < H; h++) out.set(data.subarray(h * shape[1], (h + 1) * shape[1]), h * n);
    return ops.from({ data: out, shape: [H, n] });
  };
  const seen = queries.map((heads, i) => {
    const n = sizes[i],
      at = {
        layer: 0,
        layers: 1,
        queryHeads: H,
        kvHeads: 1,
        headDim: D,
        step: first + i,
        promptLength: sizes[0],
        length: n,
        slots: n,
        aligned: true,
        budget,
        selectRows: H,
      };
    const { mask, state } = hook.run({
      at,
      ops,
      draft: { budgets: ops.from({ data: [budget], shape: [1, 1] }), state: new Map(), checks: [] },
      read: <V>(signal: { id: string }): V => {
        if (isState(signal as never)) {
          const { kind, width = 1 } = (signal as never as { state: { kind: string; width?: number } }).state;
          return (grown(signal.id, n) ??
            ops.from({
              data: new Float32Array(H * (kind === 'position' ? n : width)),
              shape: [H, kind === 'position' ? n : width],
            })) as V;
        }
        if (signal.id === 'queries') return ops.from({ data: Float32Array.from(heads.flat()), shape: [H, 1, D] }) as V;
        if (signal.id === 'layer.input')
          return ops.from({ data: Float32Array.from(hidden[i]), shape: [1, 1, hidden[i].length] }) as V;
        if (signal.id === 'rope') return { rotary: 2, angles } as V;
        if (signal.id === 'positions')
          return ops.from({ data: Uint32Array.from({ length: n }, (_, p) => p), shape: [1, n] }, 'u32') as V;
        return ops.from({ data: Float32Array.from(keys.slice(0, n).flat()), shape: [1, n, D] }) as V;
      },
    });
    for (const [id, tensor] of state!) states.set(id, tensor);
    const bits = readCpu(mask!).data;
    return Array.from({ length: H }, (_, h) =>
      Array.from({ length: n }, (_p, p) => p).filter((p) => bits[h * n + p] !== 0),
    );
  });
  return { seen, retrieved: Array.from(readCpu(states.get('state.cis.retrievals')!).data) };
}

const cases = fc.record({
  compare: fc.constantFrom('queries' as const, 'unrotated' as const, 'keys' as const, 'hidden' as const),
  among: fc.constantFrom('any' as const, 'retrievers' as const),
  block: fc.constantFrom(1, 2, 4, 8, 14),
  threshold: fc.constantFrom(-1, 0, 0.5, 0.8, 0.97, 1.5),
  dilation: fc.nat(2),
  strongest: fc.option(fc.nat(9), { nil: undefined }),
  sinks: fc.nat(3),
  local: fc.integer({ min: 1, max: 5 }),
  middle: fc.nat(9),
  first: fc.nat(9),
  steps: fc.integer({ min: 1, max: 16 }),
  size: fc.integer({ min: 4, max: 24 }),
  gaps: fc.array(fc.constantFrom(0, 0, 0, 1, 5), { minLength: 16, maxLength: 16 }), // tokens of others before a step
  seed: fc.integer({ min: 1, max: 9999 }),
});
test('agrees with the float64 oracle over blocks of decoding steps', () => {
  fc.assert(
    fc.property(cases, ({ middle, first, steps, size, gaps, seed, ...options }) => {
      const settings: Settings = { ...options, budget: options.sinks + options.local + middle };
      const sizes = Array.from({ length: steps }, (_, i) => size + 1 + i + sumOf(gaps.slice(0, i))),
        budget = settings.budget;
      const keys = Array.from({ length: sizes[steps - 1] }, (_, i) =>
        Array.from({ length: D }, (_c, c) => noise(seed)(i * D + c)),
      );
      // queries wander, so that some are alike
      const queries = Array.from({ length: steps }, (_, i) =>
        Array.from({ length: H }, (_h, h) =>
          Array.from({ length: D }, (_c, c) =>
            Math.fround(noise(seed + h + 1)(c) + 0.7 * noise(seed + h + 3)(i * D + c)),
          ),
        ),
      );
      const policy = compose(
        queryKeyProducts(),
        mandatory({ sinks: settings.sinks, recent: settings.local }),
        topK(),
        cis(options),
      );
      const hidden = Array.from({ length: steps }, (_, i) =>
        Array.from({ length: 5 }, (_c, c) => Math.fround(noise(seed + 7)(c) + 0.7 * noise(seed + 8)(i * 5 + c))),
      );
      const got = decode(queries, keys, sizes, first, policy, budget, hidden);
      for (let h = 0; h < H; h++) {
        const want = cisOracle(
          queries.map((q) => q[h]),
          keys,
          sizes,
          first,
          settings,
          unturned,
          hidden,
        );
        expect(got.seen.map((heads) => heads[h])).toEqual(want.seen);
        expect(got.retrieved[h]).toBe(want.retrieved);
      }
    }),
    { numRuns: 120 },
  );
});

test('a query that passes a reused set on passes on what was retrieved, dilated once', () => {
  // steps 0, 1, 2 turn by 30 degrees each: 1 is like 0 and 2 is like 1, but 2 is not like 0
  const turned = (degrees: number): number[] => [
      Math.cos((degrees * Math.PI) / 180),
      Math.sin((degrees * Math.PI) / 180),
      0,
    ],
    queries = [0, 30, 60].map((x) => [turned(x), turned(x)]),
    keys = Array.from({ length: 23 }, (_, i) => [i === 10 ? 9 : noise(7)(i), 0, 0]),
    run = (among: 'any' | 'retrievers') =>
      decode(
        queries,
        keys,
        [20, 21, 22],
        0,
        compose(
          queryKeyProducts(),
          mandatory({ sinks: 1, recent: 1 }),
          topK(),
          cis({ among, sinks: 1, local: 1, strongest: 1 }),
        ),
        3,
      );
  expect(run('any')).toEqual({
    seen: [
      [0, 10, 19],
      [0, 9, 10, 11, 20],
      [0, 9, 10, 11, 21],
    ].map((row) => [row, row]),
    retrieved: [1, 1],
  });
  expect(run('retrievers').retrieved).toEqual([2, 2]);
});
test('a prompt ends a block: the queries after it see what it holds', () => {
  const keys = Array.from({ length: 45 }, (_, i) => [i === 30 ? 9 : noise(7)(i), 0, 0]),
    query = [
      [1, 0, 0],
      [1, 0, 0],
    ];
  const { seen, retrieved } = decode(
    [query, query, query, query],
    keys,
    [20, 21, 42, 43],
    1,
    compose(queryKeyProducts(), mandatory({ sinks: 1, recent: 1 }), topK(), cis({ threshold: -1, sinks: 1, local: 1 })),
    4,
  );
  expect(retrieved).toEqual([2, 2]);
  expect(seen.map(([slots]) => slots.includes(30))).toEqual([false, false, true, true]);
});
test('a query that reuses reads no key: the retrieval ratio is at least 1 / s, and with one query repeated it is 1 / s', () => {
  const keys = Array.from({ length: 40 }, (_, i) => [noise(1)(3 * i), noise(1)(3 * i + 1), noise(1)(3 * i + 2)]),
    query = [
      [1, 2, 3],
      [3, -2, 1],
    ],
    sizes = Array.from({ length: 16 }, (_, i) => 20 + i);
  let rows = 0;
  const counted = {
    ...queryKeyProducts(),
    atoms: queryKeyProducts().atoms.map((a) =>
      a.at !== 'event'
        ? a
        : {
            ...a,
            run: (cells: Parameters<typeof a.run>[0]) => {
              for (const { draft } of cells) rows += Array.from(readCpu(draft.active!).data).reduce((s, x) => s + x, 0);
              return a.run(cells);
            },
          },
    ),
  };
  const { retrieved } = decode(
    sizes.map(() => query),
    keys,
    sizes,
    0,
    compose(counted, mandatory({ sinks: 2, recent: 4 }), topK(), cis({ block: 8, sinks: 2, local: 4 })),
    12,
  );
  expect(retrieved).toEqual([2, 2]);
  expect(rows).toBe(4); // of 32 rows
});
test('rows that are not active get no scores', () => {
  const all = apply(queryKeyProducts(), {
    queries: { data: Float32Array.of(1, 0, 0, 2), shape: [2, 1, 2] },
    keys: { data: Float32Array.of(1, 2, 3, 4), shape: [1, 2, 2] },
    at: { slots: 2 },
  }).scores!.data;
  expect(Array.from(all, (x) => Math.round(x * Math.SQRT2 * 1000) / 1000)).toEqual([1, 3, 4, 8]);
  const put = (shape: readonly number[], ...data: number[]): Tensor =>
    cpu.ops.from({ data: Float32Array.from(data), shape });
  const some = cpu.ops.kernel(activeDots, {
    queries: put([2, 1, 1], 2, 3),
    keys: put([1, 2, 1], 5, 7),
    wanted: put([2, 1], 0, 1),
  });
  expect(Array.from(readCpu(some).data)).toEqual([0, 0, 15, 21]);
});
test.each([
  ['block', () => cis({ block: 40 })],
  ['compare', () => cis({ compare: 'states' as never })],
  ['among', () => cis({ among: 'all' as never })],
  ['threshold', () => cis({ threshold: Number.NaN })],
  ['dilation', () => cis({ dilation: -1 })],
  ['strongest', () => cis({ strongest: -1 })],
  ['sinks', () => cis({ sinks: 0.5 })],
  ['local', () => cis({ local: -2 })],
])('%s is checked', (option, make) => {
  expect(make).toThrow(`cis: ${option} must be `);
});

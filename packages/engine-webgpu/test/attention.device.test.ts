import { inTurn } from '@kv/model-testing/in-turn';
import type { Tensor, WindowStatistic } from '@kv/core';
import type { Gpu } from '@kv/gpu';
import { numbers } from '@kv/gpu-testing';
import fc from 'fast-check';
import { expect } from 'vitest';
import { encodeAccumulate, encodeAttention, encodeColumns } from '../src/attention.ts';
import { encodeSlots } from '../src/operations.ts';
import type { AttentionResult, AttentionOptions } from '../src/attention.ts';
import type { HeadAttended } from './attention.oracle.ts';
import { check, plain, scene, shapes, share, type Shape } from './attention.scene.ts';
import { everywhere, gpuTests, near, twice, ulp } from './device.ts';

const gpuTest = await gpuTests();

const attends =
  (gpu: Gpu) =>
  async ([shape, options]: readonly [Shape, AttentionOptions]): Promise<void> => {
    const s = scene(shape, !options.scores);
    let attended: AttentionResult | undefined;
    const [got] = await twice(gpu, (commands) => [(attended = encodeAttention(commands, s.on(commands), options)).out]);
    check(got, s, shape, attended!);
  };
gpuTest('attention, whole and split, with log-sum-exp of the last queries', async (gpu) => {
  await everywhere(
    fc.tuple(
      shapes,
      fc.constantFrom<AttentionOptions>(
        {},
        { last: 1 },
        { splits: 1 },
        { splits: 1, last: 1 },
        { splits: 3 },
        { splits: 2, scores: true },
      ),
    ),
    attends(gpu),
    5,
  );
  for (const shape of inTurn(
    [
      { views: 1, m: 1 },
      { views: 1, m: 17, window: 20 },
      { views: 2, m: 1, seed: 2 }, // its own slot in a range
      { views: 2, m: 33 },
      { mask: 'query', m: 1 },
      { mask: 'kv', m: 1, biases: true },
      { m: 17, biases: true },
      { mask: 'one', m: 2, window: 20 },
      { mask: 'kv', m: 5, views: 1 },
      // the widest of Gemma 4, in the least memory of a workgroup; such kernels take long to compile
      ...inTurn([{ mask: 'query', m: 5, headDim: 512 }] as const, 4),
    ] as const,
    3,
  ))
    for (const splits of [1, 2]) await attends(gpu)([{ ...plain, slots: 600, ...shape }, { splits }]);
});

gpuTest('attention over every stored form is that over the numbers that rows stand for', async (gpu) => {
  // one kernel for each form: software adapters compile one for seconds; q4 has two blocks
  for (const form of inTurn(['f16', 'q8', 'k8v4', 'q4', 'records'] as const, 5))
    await everywhere(
      fc.tuple(
        shapes.map(
          (shape): Shape => ({
            ...shape,
            form,
            headDim: form === 'q4' || form === 'records' ? 64 : 32,
            m: 5,
            group: 3,
          }),
        ),
        fc.constantFrom('one', 'kv', 'query'),
      ),
      ([shape, mask]) => attends(gpu)([{ ...shape, mask }, { splits: 2 }]),
      2,
    );
});

const summed = (
  s: ReturnType<typeof scene>,
  { m, slots }: Shape,
  last: number,
  of: 'sum' | 'max',
): { readonly want: number[]; readonly slack: number[] } => {
  const [want, slack]: [number[], number[]] = [[], []];
  for (const head of s.heads)
    for (let j = 0; j < slots; j++) {
      const received = head.probabilities.slice(m - last).map((p) => p[j] ?? 0);
      want.push(of === 'sum' ? received.reduce((a, b) => a + b, 0) : Math.max(0, ...received));
      slack.push(
        received.reduce((a, p, i) => a + p * (2 * share(head, m - last + i, slots) + (last + 8) * 2 ** -24), 0),
      );
    }
  return { want, slack };
};

gpuTest('column sums and maxima of a window, and joined with what is there, of query heads and of KV heads', (gpu) =>
  everywhere(
    fc.tuple(
      shapes,
      fc.constantFrom<'sum' | 'max'>('sum', 'max'),
      fc.constantFrom(1, 3, 100),
      fc.boolean(),
      fc.boolean(),
    ),
    async ([shape, of, window, join, folded]) => {
      const s = scene(shape),
        last = shape.sinks ? shape.m : Math.min(window, shape.m), // all where parts are joined
        stride = shape.slots + 3,
        rows = folded ? shape.kvHeads : s.H,
        fold = s.H / rows,
        before = numbers(shape.seed, rows * stride).map(Math.abs);
      const [got] = await twice(gpu, (commands) => {
        const inputs = s.on(commands),
          columns = commands.upload(before, [rows, stride]);
        encodeColumns(commands, inputs, encodeAttention(commands, inputs, { last, splits: 1 }), columns, { of, join });
        return [columns];
      });
      const { want, slack } = summed(s, shape, last, of),
        both = Array.from(before),
        error = new Float64Array(before.length);
      want.forEach((w, i) => {
        const at = Math.floor(i / shape.slots / fold) * stride + (i % shape.slots),
          old = !join && Math.floor(i / shape.slots) % fold === 0 ? 0 : both[at];
        both[at] = of === 'sum' ? old + w : Math.max(old, w);
        error[at] = error[at] + slack[i] + ulp(both[at]);
      });
      near(got, both, (at) => error[at], 'columns');
    },
    6,
  ),
);

/**
 * The statistic of a weight of a query that sees `seen` slots, and its error bound where the weight is off by this
 * share of itself.
 */
const STATISTICS: Readonly<
  Record<WindowStatistic, (p: number, seen: number, share: number) => readonly [value: number, slack: number]>
> = {
  squares: (p, _, share) => [p * p, 2 * p * p * share],
  // within rounding of the mean weight
  votes: (p, seen, share) => [Number(p * seen > 1), seen > 1 && Math.abs(p * seen - 1) < share + 2 ** -17 ? 1 : 0],
  normalized: (p, seen, share) => [p * (seen - 1), p * (seen - 1) * share],
  entropy: (p, _, share) => (p === 0 ? [0, 0] : [-p * Math.log(p), p * share * (1 - Math.log(p))]),
};
const KINDS = Object.keys(STATISTICS) as WindowStatistic[];
const everyStatistic =
  (gpu: Gpu) =>
  async ([shape, window, folded]: readonly [Shape, number, boolean]): Promise<void> => {
    const s = scene(shape),
      last = shape.sinks ? shape.m : Math.min(window, shape.m), // all where parts are joined
      from = shape.m - last,
      rows = folded ? shape.kvHeads : s.H,
      fold = s.H / rows;
    const got = await twice(gpu, (commands) => {
      const inputs = s.on(commands),
        attended = encodeAttention(commands, inputs, { last, splits: 1 });
      return KINDS.map((of) => {
        const columns = commands.make([rows, shape.slots]);
        encodeColumns(commands, inputs, attended, columns, { of, over: last });
        return columns;
      });
    });
    for (const [k, of] of KINDS.entries()) {
      const [want, slack]: [number[], number[]] = [[], []];
      for (let row = 0; row < rows; row++)
        for (let j = 0; j < shape.slots; j++) {
          const terms = s.heads
            .slice(row * fold, (row + 1) * fold)
            .flatMap((head) =>
              Array.from({ length: last }, (_, i) =>
                STATISTICS[of](
                  head.probabilities[from + i][j] ?? 0,
                  head.seen[from + i],
                  2 * share(head, from + i, shape.slots),
                ),
              ),
            );
          const value = terms.reduce((sum, [term]) => sum + term, 0) / last;
          want.push(value);
          slack.push(
            terms.reduce((sum, [, term]) => sum + term, 0) / last + value * (last + fold + 8) * 2 ** -24 + ulp(value),
          );
        }
      near(got[k], want, (at) => slack[at], of);
    }
  };
gpuTest('statistics of a window, of query heads and of KV heads', async (gpu) => {
  await everywhere(
    fc.tuple(
      shapes.map((shape) => ({ ...shape, headDim: 12 as const })),
      fc.constantFrom(1, 3, 100),
      fc.boolean(),
    ),
    everyStatistic(gpu),
    3,
  );
  for (const hidden of inTurn([{ window: 20 }, { views: 2 }, { mask: 'query' }, { window: 1, mask: 'kv' }] as const, 4))
    await everyStatistic(gpu)([{ ...plain, softcap: 2, ...hidden }, 20, false]);
});

gpuTest('equal keys get no votes, however many of them a query sees', async (gpu) => {
  for (const slots of [1, 33, 150] as const) {
    const shape: Shape = { ...plain, seed: slots, m: 17, slots, spare: 0 },
      s = scene(shape);
    const [votes] = await twice(gpu, (commands) => {
      const inputs = {
          ...s.on(commands),
          keys: commands.upload(new Float32Array(2 * slots * 12).fill(1.7), [2, slots, 12]),
        },
        columns = commands.make([4, slots]);
      encodeColumns(commands, inputs, encodeAttention(commands, inputs, { last: 17 }), columns, { of: 'votes' });
      return [columns];
    });
    expect(votes.every((x) => x === 0)).toBe(true);
  }
});

gpuTest('running sums of decoded queries, of query heads and of KV heads', (gpu) =>
  everywhere(
    fc.tuple(shapes, fc.constantFrom(1, 2), fc.boolean(), fc.constantFrom(1, 2)),
    async ([given, m, folded, splits]) => {
      const shape = { ...given, m },
        s = scene(shape),
        rows = folded ? shape.kvHeads : s.H,
        stride = shape.slots + 3,
        before = numbers(shape.seed, rows * stride).map(Math.abs);
      const [got] = await twice(gpu, (commands) => {
        const inputs = s.on(commands),
          sums: Tensor = commands.upload(before, [rows, stride]),
          { scores, ...attended } = encodeAttention(commands, inputs, { scores: true, splits });
        encodeAccumulate(commands, inputs, { ...attended, scores: scores! }, sums);
        return [sums];
      });
      const { want, slack } = summed(s, shape, m, 'sum'),
        fold = s.H / rows,
        both = Array.from(before),
        error = new Float64Array(before.length);
      want.forEach((w, i) => {
        const at = Math.floor(i / shape.slots / fold) * stride + (i % shape.slots);
        both[at] = both[at] + w;
        error[at] = error[at] + slack[i] + 2 * ulp(8);
      });
      near(got, both, (at) => error[at], 'sums');
    },
    5,
  ),
);

const addsBefore =
  (gpu: Gpu) =>
  async ([given, folded, splits, scores, later]: readonly [
    Shape,
    boolean,
    number | undefined,
    boolean,
    number,
  ]): Promise<void> => {
    const shape = { ...given, m: 2, views: 0, mask: 'none', biases: false } as const,
      s = scene(shape),
      [G, d] = [shape.kvHeads, shape.headDim],
      rows = folded ? G : s.H,
      stride = shape.slots + 3,
      before = numbers(shape.seed, rows * stride).map(Math.abs);
    const own = s.queryPositions[1],
      pastAt = Math.max(0, s.queryPositions[0] - later),
      past = s.heads.map((_, h) => numbers(shape.seed + 5 + h, d + 1).map((x) => x / 4));
    let attended: AttentionResult | undefined;
    const [out, sums, left] = await twice(gpu, (commands) => {
      const all = s.on(commands),
        q = commands.make([s.H, 1, d]),
        leave = commands.make([s.H * (d + 1)]);
      const sums = commands.upload(before, [rows, stride]),
        held = commands.upload(
          Float32Array.from([...past.flatMap((x) => [...x.subarray(0, d)]), ...past.map((x) => x[d])]),
          [s.H * (d + 1)],
        );
      encodeSlots(commands, all.q, q, 1, 1);
      attended = encodeAttention(
        commands,
        { ...all, m: 1, q, rows: commands.upload(Uint32Array.of(own), [1]) },
        { add: { past: held, pastAt, own, sums }, leave, ...(scores && { scores }), ...(splits && { splits }) },
      );
      return [attended.out, sums, leave];
    });
    check(
      out,
      {
        ...s,
        heads: s.heads.map(
          (head) =>
            Object.fromEntries(
              Object.entries(head).map(([key, of]) => [key, [(of as unknown[])[1]]]),
            ) as unknown as HeadAttended,
        ),
      },
      { ...shape, m: 1 },
      attended!,
    );
    const cap = (x: number): number => (shape.softcap === undefined ? x : shape.softcap * Math.tanh(x / shape.softcap)),
      want = Array.from(before),
      error = new Float64Array(before.length),
      fold = s.H / rows;
    s.cache.forEach((slots, g) =>
      slots.forEach(({ position, key }, j) => {
        if (position > pastAt || (position < pastAt && pastAt - position >= (shape.window ?? Infinity))) return;
        for (let h = g * (s.H / G); h < (g + 1) * (s.H / G); h++) {
          const terms = key.map((x, c) => s.scale * x * past[h][c]),
            score = cap(terms.reduce((a, b) => a + b, 0)),
            lse = past[h][d],
            at = Math.floor(h / fold) * stride + j,
            weight = Math.exp(score - lse);
          want[at] = want[at] + weight;
          error[at] =
            error[at] +
            weight *
              ((d + 4) * terms.reduce((a, b) => a + Math.abs(b), 0) +
                16 * Math.abs(score) +
                4 * (3 + 2 * Math.abs(score - lse)) +
                fold +
                4) *
              2 ** -24;
        }
      }),
    );
    near(sums, want, (at, y) => error[at] + fold * ulp(y), 'sums');
    near(
      left.subarray(s.H * d) as Float32Array,
      s.heads.map((head) => head.lse[1] ?? -3.4028234663852886e38),
      (h, y) =>
        share(
          { ...s.heads[h], scoreError: [s.heads[h].scoreError[1]], spread: [s.heads[h].spread[1]] },
          0,
          shape.slots,
        ) +
        2 ** -21 +
        4 * ulp(y),
      'log-sum-exp that is left',
    );
  };
gpuTest(
  'the query before is added to running sums by the attention of the next, of query heads and of KV heads',
  async (gpu) => {
    await everywhere(
      fc.tuple(shapes, fc.boolean(), fc.constantFrom(undefined, 1, 2), fc.boolean(), fc.constantFrom(0, 1, 30)),
      addsBefore(gpu),
      6,
    );
    for (const seed of [1, 2, 3])
      await addsBefore(gpu)([
        { ...plain, seed, m: 1, kvHeads: 1, slots: 150, spare: 0, window: 20 },
        false,
        1,
        false,
        30,
      ]); // tiles that only the query before sees
  },
);

gpuTest('what cannot wait for the next query is refused', (gpu) =>
  gpu.scope(({ commands }) => {
    const a = scene({ ...plain, seed: 1, m: 2, kvHeads: 1, slots: 1, spare: 0 }).on(commands),
      sums = commands.make([2, 5]),
      add = { past: commands.make([26]), pastAt: 0, own: 1, sums };
    expect(() => encodeAttention(commands, a, { add })).toThrow(
      /^attention: expected one query where sums wait for the next, got 2$/,
    );
    expect(() => encodeAttention(commands, { ...a, m: 1, views: 1 }, { add })).toThrow(
      /^attention: expected no mask, hidden ranges or biases/,
    );
    expect(() =>
      encodeAttention(
        commands,
        { ...a, m: 1, heads: 40, headDim: 512 },
        { add: { ...add, sums: commands.make([1, 5]) } },
      ),
    ).toThrow(/^attention: expected at most 4 query heads a KV head of 512 numbers/);
    return Promise.resolve();
  }),
);

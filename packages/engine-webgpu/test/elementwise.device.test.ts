import { spaceChannels } from '@kv/checkpoints';
import { gatedDelta, gateOutputs, shortConvolution, stateSpace } from '@kv/engine';
import fc from 'fast-check';
import { expect } from 'vitest';
import { columns } from '../src/rows.ts';
import {
  encodeAdd,
  encodeArgmax,
  encodeConvolution,
  encodeGated,
  encodeGatedDelta,
  encodeHeads,
  encodeNorm,
  encodeOutputGate,
  encodeSoftcap,
  encodeStateSpace,
} from '../src/operations.ts';
import { rowsOf } from '../src/index.ts';
import type { DeviceRowView } from '../src/index.ts';
import type { Tensor } from '@kv/core';
import type { Commands, Gpu } from '@kv/gpu';
import { numbers, random } from '@kv/gpu-testing';
import { everywhere, gpuTests, near, twice, ulp } from './device.ts';
import { gelu, inHeads, normed, silu, turnedParts, viewed } from './rows.oracle.ts';

const gpuTest = await gpuTests();

const widths = fc.oneof(fc.constantFrom(1, 63, 64, 65, 255, 256, 257), fc.integer({ min: 1, max: 300 }));
const shapes = fc.record({
  seed: fc.nat(),
  m: fc.constantFrom(0, 1, 2, 5),
  width: widths,
  before: fc.constantFrom(0, 1, 3),
  after: fc.constantFrom(0, 5),
});
type Shape = typeof shapes extends fc.Arbitrary<infer S> ? S : never;

/** Columns of a wider tensor, and the same on the host. */
function view(
  { seed, m, width, before, after }: Shape,
  salt = 0,
  as: 'any' | 'ties' = 'any',
): {
  readonly data: Float32Array;
  readonly on: (commands: Commands) => DeviceRowView;
  readonly rows: ReturnType<typeof viewed>;
} {
  const stride = before + width + after,
    data = numbers(seed + salt, m * stride, as);
  return {
    data,
    on: (commands) => columns(rowsOf(commands.upload(data, [m, stride]), stride), before, width),
    rows: viewed(data, m, before, stride, width),
  };
}
const first = async (gpu: Gpu, build: (commands: Commands) => DeviceRowView): Promise<Float32Array> =>
  (await twice(gpu, (commands) => [build(commands).tensor]))[0] as Float32Array;

// the sum of squares is within n 2^-24 of itself, so its root within half of that; inverseSqrt 2 ULP, division 2.5, two
// products
gpuTest('RMSNorm of rows and of heads', (gpu) =>
  everywhere(fc.tuple(shapes, fc.constantFrom(1, 3)), async ([shape, runs]) => {
    const wide = { ...shape, width: shape.width * runs },
      x = view(wide),
      gain = numbers(shape.seed + 7, shape.width);
    const got = await first(gpu, (commands) =>
      encodeNorm(commands, x.on(commands), shape.m, commands.upload(gain, [shape.width]), 1e-5),
    );
    near(
      got,
      normed(x.rows, gain, 1e-5).flat(),
      (_, want) => (shape.width / 2 + 16) * 2 ** -24 * Math.abs(want) + ulp(want),
    );
  }),
);

// two products and their sum: 1 ULP each of what is added
gpuTest('rotation, and the layouts of rows and heads', (gpu) =>
  everywhere(fc.tuple(shapes, fc.constantFrom(1, 3), fc.constantFrom(0, 2, 4, 6)), async ([shape, heads, turn]) => {
    const size = Math.max(2 * Math.ceil(shape.width / 6), turn),
      rotary = turn === 6 ? size : turn,
      x = view({ ...shape, width: heads * size });
    const angles = numbers(shape.seed + 9, (shape.m * rotary) / 2),
      cos = angles.map(Math.cos),
      sin = angles.map(Math.sin);
    const scales = rotary === 0 || shape.seed % 2 === 0 ? undefined : numbers(shape.seed + 11, shape.m);
    const parts = turnedParts(x.rows, size, rotary, cos, sin).map((row, r) =>
        row.map(([a, b]) => [a, b].map((v) => v * (scales?.[r] ?? 1)) as [number, number]),
      ),
      turned = parts.map((row) => row.map(([a, b]) => a + b)),
      scale = parts.map((row) => row.map(([a, b]) => Math.abs(a) + Math.abs(b)));
    for (const layout of ['rows', 'heads'] as const) {
      const got = await first(gpu, (commands) =>
        encodeHeads(
          commands,
          x.on(commands),
          shape.m,
          size,
          layout,
          rotary === 0
            ? undefined
            : {
                rotary,
                cos: commands.upload(cos, [shape.m, rotary / 2]),
                sin: commands.upload(sin, [shape.m, rotary / 2]),
                ...(scales && { scales: commands.upload(scales, [shape.m]) }),
              },
        ),
      );
      const laid = (rows: readonly (readonly number[])[]): number[] =>
        layout === 'rows' ? rows.flat() : inHeads(rows, size);
      const of = laid(scale);
      near(got, laid(turned), (at) => (rotary === 0 ? 0 : (scales ? 5 : 3) * ulp(of[at])));
    }
  }),
);

// exp is within 3 + 2 |x| ULP, which 1 + e^-x passes on in part; gelu's exponent carries 4 roundings of its own;
// division 2.5 ULP, products 1;
// the reference's 1 + tanh cancels to 2^-52
gpuTest('SwiGLU and GeGLU of columns of the same rows and of rows apart', (gpu) =>
  everywhere(shapes, async (shape) => {
    const x = view({ ...shape, width: 2 * shape.width }),
      other = view(shape, 4);
    for (const [activation, act] of [
      ['silu', silu],
      ['gelu', gelu],
    ] as const) {
      const inner = x.rows.flatMap((row) => row.slice(0, shape.width));
      for (const apart of [false, true]) {
        const got = await first(gpu, (commands) => {
          const rows = x.on(commands),
            gate = columns(rows, 0, shape.width),
            up = apart ? other.on(commands) : columns(rows, shape.width, shape.width);
          return encodeGated(commands, gate, up, shape.m, activation);
        });
        const up = apart ? other.rows.flat() : x.rows.flatMap((row) => row.slice(shape.width));
        near(
          got,
          inner.map((g, i) => act(g) * up[i]),
          (at, want) => {
            const g = Math.abs(inner[at]),
              exponent = activation === 'silu' ? g : 1.6 * (g + 0.0448 * g ** 3);
            return (
              (3 + 2 * exponent + 4 * (activation === 'gelu' ? exponent : 0) + 8) * 2 ** -23 * Math.abs(want) +
              2 ** -52 * Math.abs(inner[at] * up[at]) +
              2 ** -120
            );
          },
        );
      }
    }
  }),
);

gpuTest('a sum is the nearest f32', (gpu) =>
  everywhere(shapes, async (shape) => {
    const [x, y] = [view(shape), view({ ...shape, before: 1, after: 0 }, 4)];
    const got = await first(gpu, (commands) => encodeAdd(commands, x.on(commands), y.on(commands), shape.m));
    const want = x.rows.flat().map((v, i) => v + y.rows.flat()[i]);
    near(got, want, (_, w) => ulp(w));
  }),
);

// tanh by its series is within 6 ULP below a quarter; beyond, exp within 3 + 2 |2x| ULP and a division, both damped by
// 1 - tanh²
gpuTest('soft cap', (gpu) =>
  everywhere(fc.tuple(shapes, fc.constantFrom(0.5, 3, 50)), async ([shape, cap]) => {
    const x = view(shape),
      got = await first(gpu, (commands) => encodeSoftcap(commands, x.on(commands), shape.m, cap));
    near(
      got,
      x.rows.flat().map((v) => cap * Math.tanh(v / cap)),
      (_, want) => 16 * 2 ** -23 * Math.abs(want) + 2 ** -120,
    );
  }),
);

gpuTest('infinities and NaN where they have a meaning', async (gpu) => {
  const data = Float32Array.of(Infinity, -Infinity, NaN, 1e38, -1e38, 100, -100, 0, -0),
    x = rowsOf;
  const [capped, sum, same] = (await gpu.scope(async ({ commands, read }) => {
    const rows = x(commands.upload(data, [1, 9]), 9),
      ones = x(commands.upload(new Float32Array(9).fill(1), [1, 9]), 9);
    return (
      await read([
        encodeSoftcap(commands, rows, 1, 5).tensor,
        encodeAdd(commands, rows, ones, 1).tensor,
        encodeHeads(commands, rows, 1, 9, 'rows').tensor,
      ])
    ).map((r) => [...r.data]);
  })) as [number[], number[], number[]];
  expect([capped[3], capped[4], capped[5], capped[6]]).toEqual([5, -5, 5, -5]);
  expect([sum[0], sum[1], sum[2], sum[7]]).toEqual([Infinity, -Infinity, NaN, 1]);
  expect(same).toEqual([...data]);
  const silus = await gpu.scope(async ({ commands, read }) => {
    const act = (activation: 'silu' | 'gelu', ...gates: number[]): Tensor => {
      const rows = rowsOf(commands.upload(Float32Array.of(...gates, 1, 1, 1, 1), [1, 8]), 8);
      return encodeGated(commands, columns(rows, 0, 4), columns(rows, 4, 4), 1, activation).tensor;
    };
    return (await read([act('silu', 200, -200, 1e30, -1e30), act('gelu', 200, -200, 50, -50)])).flatMap((r) => [
      ...r.data,
    ]);
  });
  near(
    Float32Array.from(silus),
    [200, 0, 1e30, 0, 200, 0, 50, 0],
    (_, want) => 4 * ulp(want) + (want === 0 ? 1e-6 : 0),
  );
});

gpuTest('argmax: ties to the lower place, NaN below all, infinities in order', (gpu) =>
  everywhere(
    fc.tuple(shapes, fc.constantFrom('any', 'ties', 'odd')),
    async ([shape, kind]) => {
      const x = view(shape, 0, kind === 'any' ? 'any' : 'ties'),
        next = random(shape.seed + 3),
        stride = shape.before + shape.width + shape.after;
      if (kind === 'odd')
        x.data.forEach((_, i) => {
          const p = next();
          if (p < 0.5) x.data[i] = NaN;
          else if (p < 0.6) x.data[i] = -Infinity;
          else if (p < 0.61) x.data[i] = Infinity;
        });
      const want = viewed(x.data, shape.m, shape.before, stride, shape.width).map((row) =>
        row.reduce((best, v, i) => (v > row[best] || (Number.isNaN(row[best]) && !Number.isNaN(v)) ? i : best), 0),
      );
      const [got] = await twice(gpu, (commands) => [encodeArgmax(commands, x.on(commands), shape.m)]);
      expect([...got]).toEqual(want);
    },
    20,
  ),
);

gpuTest('short convolutions of some rows, and the state that they leave, are those of plain loops', (gpu) =>
  everywhere(
    fc.record({
      seed: fc.nat(),
      m: fc.constantFrom(1, 2, 7, 40),
      channels: fc.constantFrom(1, 3, 64, 70),
      length: fc.integer({ min: 2, max: 6 }),
      before: fc.constantFrom(0, 5),
    }),
    async ({ seed, m, channels, length, before }) => {
      const stride = before + 3 * channels,
        data = numbers(seed, m * stride, 'any'),
        rows = new Float32Array(m * 3 * channels),
        kernel = {
          channels,
          length,
          taps: numbers(seed + 1, length * channels, 'any'),
          bias: numbers(seed + 2, channels, 'any'),
        },
        state = numbers(seed + 3, (length - 1) * channels, 'any'),
        size = state.length;
      for (let r = 0; r < m; r++) rows.set(data.subarray(r * stride + before, (r + 1) * stride), r * 3 * channels);
      const [out, next] = await twice(gpu, (commands) => {
        const left = commands.make([1, size]),
          x = columns(rowsOf(commands.upload(data, [m, stride]), stride), before, 3 * channels),
          on = {
            taps: commands.upload(kernel.taps, [length, channels]),
            bias: commands.upload(kernel.bias, [channels]),
          };
        return [encodeConvolution(commands, x, m, on, commands.upload(state, [1, size]), left), left];
      });
      const wanted = shortConvolution(rows, kernel, state);
      near(out, wanted, (_, want) => 1e-5 * (1 + Math.abs(want)), 'outputs');
      near(next, state, (_, want) => 1e-6 * (1 + Math.abs(want)), 'the state');
    },
  ),
);

gpuTest('gated delta rules of some rows, and the state that they leave, are those of the host', (gpu) =>
  everywhere(
    fc.record({
      seed: fc.nat(),
      m: fc.constantFrom(1, 2, 9),
      keyHeads: fc.constantFrom(1, 2),
      each: fc.constantFrom(1, 3),
      keyDim: fc.constantFrom(1, 5, 16, 65),
      valueDim: fc.constantFrom(1, 7, 16, 70),
      length: fc.integer({ min: 2, max: 5 }),
      keyHeadOf: fc.constantFrom('tiled' as const, 'grouped' as const),
      before: fc.constantFrom(0, 5),
    }),
    async ({ seed, m, each, before, ...shape }) => {
      const { keyHeads, keyDim, valueDim, length } = shape,
        valueHeads = keyHeads * each,
        channels = 2 * keyHeads * keyDim + valueHeads * valueDim,
        width = channels + valueHeads * (valueDim + 2),
        stride = before + width,
        some = (salt: number, count: number): Float32Array => numbers(seed + salt, count),
        rule = {
          ...{ ...shape, valueHeads, channels, eps: 1e-6 },
          taps: some(1, length * channels),
          bias: new Float32Array(channels),
          decay: some(2, valueHeads).map((x) => -Math.abs(x)),
          timeBias: some(3, valueHeads),
          gain: some(4, valueDim),
        },
        data = some(5, m * stride),
        rows = new Float32Array(m * width),
        state = some(6, (length - 1) * channels + valueHeads * keyDim * valueDim),
        size = state.length;
      for (let r = 0; r < m; r++) rows.set(data.subarray(r * stride + before, (r + 1) * stride), r * width);
      const [out, next] = await twice(gpu, (commands) => {
        const left = commands.make([1, size]),
          x = columns(rowsOf(commands.upload(data, [m, stride]), stride), before, width),
          on = {
            ...rule,
            taps: commands.upload(rule.taps, [length, channels]),
            bias: commands.upload(rule.bias, [channels]),
            decay: commands.upload(rule.decay, [valueHeads]),
            timeBias: commands.upload(rule.timeBias, [valueHeads]),
            gain: commands.upload(rule.gain, [valueDim]),
          };
        return [encodeGatedDelta(commands, x, m, on, commands.upload(state, [1, size]), left), left];
      });
      const wanted = gatedDelta(rows, rule, state);
      near(out, wanted, (_, want) => 2e-4 * (1 + Math.abs(want)), 'outputs');
      near(next, state, (_, want) => 1e-5 * (1 + Math.abs(want)), 'the state');
    },
  ),
);

gpuTest('state spaces of some rows, and the state that they leave, are those of the host', (gpu) =>
  everywhere(
    fc.record({
      seed: fc.nat(),
      m: fc.constantFrom(1, 2, 9),
      groups: fc.constantFrom(1, 2),
      each: fc.constantFrom(1, 3),
      stateDim: fc.constantFrom(1, 5, 65),
      headDim: fc.constantFrom(1, 7, 70),
      length: fc.integer({ min: 2, max: 5 }),
      timeStep: fc.constantFrom<(readonly [number, number])[]>([0, Infinity], [0.5, 0.9]),
      before: fc.constantFrom(0, 5),
    }),
    async ({ seed, m, each, before, ...shape }) => {
      const { groups, stateDim, headDim, length } = shape,
        heads = groups * each,
        inner = heads * headDim,
        channels = spaceChannels({ ...shape, heads }),
        width = inner + channels + heads,
        stride = before + width,
        some = (salt: number, count: number): Float32Array => numbers(seed + salt, count),
        rule = {
          ...{ ...shape, heads, channels, taps: some(1, length * channels), bias: some(2, channels) },
          constants: some(3, 3 * heads).map((x, i) => (i < heads ? -Math.abs(x) : x)),
        },
        data = some(4, m * stride),
        rows = new Float32Array(m * width),
        state = some(5, (length - 1) * channels + inner * stateDim),
        size = state.length;
      for (let r = 0; r < m; r++) rows.set(data.subarray(r * stride + before, (r + 1) * stride), r * width);
      const [out, next] = await twice(gpu, (commands) => {
        const left = commands.make([1, size]),
          x = columns(rowsOf(commands.upload(data, [m, stride]), stride), before, width),
          on = {
            ...rule,
            taps: commands.upload(rule.taps, [length, channels]),
            bias: commands.upload(rule.bias, [channels]),
            constants: commands.upload(rule.constants, [3, heads]),
          };
        return [encodeStateSpace(commands, x, m, on, commands.upload(state, [1, size]), left), left];
      });
      const wanted = stateSpace(rows, rule, state);
      near(out, wanted, (_, want) => 1e-4 * (1 + Math.abs(want)), 'outputs');
      near(next, state, (_, want) => 1e-5 * (1 + Math.abs(want)), 'the state');
    },
  ),
);

gpuTest('output gates, one for each number or for some', (gpu) =>
  everywhere(shapes, async ({ seed, m, width: gates }) => {
    const width = gates * (1 + (seed % 3)),
      [x, gate] = [numbers(seed, m * width), numbers(seed + 1, m * gates).map((v) => 20 * v)],
      got = await first(gpu, (commands) => {
        const [rows, on] = [commands.upload(x, [m, width]), commands.upload(gate, [m, gates])];
        return rowsOf(encodeOutputGate(commands, rows, on, width), width);
      });
    near(got, gateOutputs(x, gate), (_, want) => 1e-5 * Math.abs(want) + 1e-30);
  }),
);

import { numbers, random } from '@kv/gpu-testing';
import type { Gpu } from '@kv/gpu';
import type { Matrix } from '@kv/checkpoints';
import fc from 'fast-check';
import { expect } from 'vitest';
import { encodeExperts } from '../src/experts.ts';
import { rowsOf, uploadMatrix } from '../src/index.ts';
import { columns } from '../src/rows.ts';
import { everywhere, gpuTests, near, twice, ulp } from './device.ts';
import { matrixOf } from './products.ts';
import type { Stored } from './weights.oracle.ts';

const gpuTest = await gpuTests();

interface Case {
  readonly seed: number;
  readonly m: number;
  /** Experts, those of a row, and columns of the rows of scores after them. */
  readonly experts: number;
  readonly active: number;
  readonly after: number;
  readonly matrices: { readonly stored: Stored; readonly hidden: number; readonly width: number };
  /** Bindings that a matrix needs, whose ends lie within an expert. */
  readonly parts: number;
  /** Whether all scores prefer one expert, so that it has more rows than a tile. */
  readonly crowded: boolean;
  readonly kind: readonly [sigmoid: boolean, normalised: boolean, selection: boolean, scaled: boolean];
  readonly activation: 'silu' | 'gelu' | 'clamped';
}

/** What experts give in float64, row by row, and by how much f32 may miss it. */
function experts64(
  { m, active, matrices: { hidden, width }, kind: [sigmoid, normalised, selection, scaled], activation }: Case,
  x: ArrayLike<number>,
  scores: readonly (readonly number[])[],
  [gateUp, down]: readonly (readonly number[])[],
  [selectionBias, weightScale, gateUpBias, downBias]: readonly (ArrayLike<number> | undefined)[],
  scale: number,
): { readonly want: number[]; readonly slack: number[] } {
  const want: number[] = [],
    slack: number[] = [];
  const logistic = (t: number): number => 1 / (1 + Math.exp(-t));
  for (let r = 0; r < m; r++) {
    const score = scores[r].map((s) => (sigmoid ? logistic(s) : Math.exp(s))),
      by = scores[r].map((s, e) => (sigmoid ? score[e] : s) + (selection ? selectionBias![e] : 0)),
      chosen = scores[r].map((_, e) => e);
    chosen.sort((a, b) => by[b] - by[a] || a - b).splice(active);
    const sum = (of: readonly number[]): number => of.reduce((a, e) => a + score[e], 0),
      over = normalised ? sum(chosen) + (sigmoid ? 1e-6 : 0) : sigmoid ? 1 : sum(scores[r].map((_, e) => e));
    const row = new Float64Array(hidden),
      off = new Float64Array(hidden);
    for (const e of chosen) {
      const share = ((scale * score[e]) / over) * (scaled ? weightScale![e] : 1);
      /** A product's number, and its rounding in f32. */
      const dot = (
        w: readonly number[],
        from: number,
        of: (i: number) => number,
        n: number,
        bias: number,
      ): [number, number] => {
        let [total, size] = [bias, Math.abs(bias)];
        for (let i = 0; i < n; i++) {
          total += w[from + i] * of(i);
          size += Math.abs(w[from + i] * of(i));
        }
        return [total, (n + 4) * 2 ** -24 * size];
      };
      const gated: number[] = [],
        rough: number[] = [];
      for (let f = 0; f < width; f++) {
        const [[g, gOff], [u, uOff]] = [f, width + f].map((o) =>
          dot(
            gateUp,
            (e * 2 * width + o) * hidden,
            (i) => x[r * hidden + i],
            hidden,
            gateUpBias?.[e * 2 * width + o] ?? 0,
          ),
        );
        const gate = activation === 'clamped' ? Math.min(g, 7) : g,
          up = activation === 'clamped' ? Math.max(-7, Math.min(7, u)) + 1 : u;
        const active = {
          silu: gate * logistic(gate),
          gelu: 0.5 * gate * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (gate + 0.044715 * gate ** 3))),
          clamped: gate * logistic(1.702 * gate),
        }[activation];
        gated.push(active * up);
        rough.push(
          1.2 * gOff * (Math.abs(up) + uOff) +
            Math.abs(active) * uOff +
            64 * ulp(active * up) +
            2 ** -20 * Math.abs(up) * Math.abs(gate),
        );
      }
      for (let d = 0; d < hidden; d++) {
        const [y, yOff] = dot(down, (e * hidden + d) * width, (f) => gated[f], width, downBias?.[e * hidden + d] ?? 0);
        const carried = rough.reduce((a, b, f) => a + b * Math.abs(down[(e * hidden + d) * width + f]), 0);
        row[d] += share * y;
        off[d] += Math.abs(share) * (yOff + carried + 2 ** -18 * Math.abs(y));
      }
    }
    want.push(...row);
    slack.push(...off);
  }
  return { want, slack };
}

async function check(gpu: Gpu, c: Case): Promise<void> {
  const { seed, m, experts, active, after, matrices, parts, crowded, kind, activation } = c,
    { stored, hidden, width } = matrices,
    [sigmoid, normalised, selection, scaled] = kind,
    next = random(seed + 7),
    scale = 1.5;
  const quarter = (): number => Math.floor(next() * 17) / 4 - 2; // many are equal
  const scores = Array.from({ length: m }, () =>
      Array.from({ length: experts }, (_, e) => quarter() + (crowded && e === experts - 1 ? 8 : 0)),
    ),
    given = scores.flatMap((row) => [...row, ...Array.from({ length: after }, () => 1e9)]),
    x = numbers(seed, m * hidden),
    gateUp = matrixOf(seed + 1, hidden, [[stored, experts * 2 * width]]),
    down = matrixOf(seed + 2, width, [[stored, experts * hidden]]),
    [selectionBias, weightScale] = [selection, scaled].map((has) =>
      has ? Float32Array.from({ length: experts }, quarter) : undefined,
    ),
    [gateUpBias, downBias] = [2 * width, hidden].map((n, i) =>
      stored === 'F32' ? numbers(seed + 3 + i, experts * n) : undefined,
    );
  const [got] = await twice(gpu, (commands) => {
    const array = (of: Float32Array | undefined) => of && commands.upload(of, [of.length]),
      stride = experts + after;
    const out = encodeExperts(
      commands,
      rowsOf(commands.upload(x, [m, hidden]), hidden),
      columns(rowsOf(commands.upload(Float32Array.from(given), [m, stride]), stride), 0, experts),
      m,
      {
        ...{ experts, activation },
        routing: { active, scores: sigmoid ? 'sigmoid' : 'softmax', normalised, scale },
        selectionBias: array(selectionBias),
        weightScale: array(weightScale),
        gateUp: uploadMatrix(commands, gateUp.matrix, size(gateUp.matrix) / parts),
        gateUpBias: array(gateUpBias),
        down: uploadMatrix(commands, down.matrix, size(down.matrix) / parts),
        downBias: array(downBias),
      },
    );
    return [out.tensor];
  });
  const { want, slack } = experts64(
    c,
    x,
    scores,
    [gateUp.numbers, down.numbers],
    [selectionBias, weightScale, gateUpBias, downBias],
    scale,
  );
  near(got, want, (at, y) => slack[at] + ulp(y));
}

/** Bytes of a matrix on the device, without scales. */
const size = ({ outputs, inputs, parts: [{ type }] }: Matrix): number => outputs * inputs * (type === 'F32' ? 4 : 0.5);

const kinds: readonly Case['kind'][] = [
  [false, true, false, true],
  [false, false, false, false],
  [true, true, true, false],
  [true, false, true, false],
];

const PLAIN: Case['matrices'] = { stored: 'F32', hidden: 20, width: 12 }, // not whole octets
  MX: Case['matrices'] = { stored: 'MXFP4', hidden: 32, width: 64 };

gpuTest('routed experts: few rows and tiles, ties, several bindings, as a float64 program', (gpu) =>
  everywhere(
    fc.record({
      seed: fc.nat(),
      // each form and number of experts, a bias or none, few rows or many is another kernel, which software adapters
      // compile for seconds
      rows: fc.constantFrom(
        { m: 1, experts: 70, matrices: MX },
        { m: 8, experts: 5, matrices: MX },
        { m: 3, experts: 70, matrices: PLAIN },
        { m: 9, experts: 5, matrices: PLAIN },
        { m: 70, experts: 5, matrices: PLAIN },
        { m: 70, experts: 70, matrices: PLAIN },
      ),
      active: fc.constantFrom(1, 3),
      after: fc.constantFrom(0, 1),
      parts: fc.constantFrom(1, 3),
      crowded: fc.boolean(),
      kind: fc.constantFrom(...kinds),
      activation: fc.constantFrom('silu', 'gelu', 'clamped'),
    }),
    ({ rows, ...c }) => check(gpu, { ...c, ...rows }),
    8,
  ),
);

gpuTest('rows of experts do not depend on the block they came in, of few rows or in tiles', async (gpu) => {
  const [experts, active, hidden, width] = [5, 2, 20, 12],
    x = numbers(1, 80 * hidden),
    scores = numbers(2, 80 * experts),
    biases = [numbers(5, experts * 2 * width), numbers(6, experts * hidden)],
    matrices = [matrixOf(3, hidden, [['F32', experts * 2 * width]]), matrixOf(4, width, [['F32', experts * hidden]])];
  const of = (from: number, m: number): Promise<number[]> =>
    gpu.scope(async ({ commands, read }) => {
      const [gateUp, down] = matrices.map(({ matrix }) => uploadMatrix(commands, matrix, 2 ** 30)),
        [gateUpBias, downBias] = biases.map((bias) => commands.upload(bias, [bias.length])),
        some = (all: ArrayLike<number>, n: number) =>
          rowsOf(commands.upload(Float32Array.from(all).slice(from * n, (from + m) * n), [m, n]), n);
      const { tensor } = encodeExperts(commands, some(x, hidden), some(scores, experts), m, {
        ...{ experts, activation: 'silu', routing: { active, scores: 'softmax', normalised: true, scale: 1 } },
        ...{ selectionBias: undefined, weightScale: undefined, gateUp, gateUpBias, down, downBias },
      });
      return [...(await read([tensor]))[0].data];
    });
  const [whole, few] = [await of(0, 80), await of(0, 8)];
  expect(await of(30, 40)).toEqual(whole.slice(30 * hidden, 70 * hidden));
  expect([...(await of(0, 3)), ...(await of(3, 5))]).toEqual(few);
});

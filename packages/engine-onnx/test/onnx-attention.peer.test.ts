import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  attend,
  LayerCache,
  Ledger,
  plainEngine,
  type Attend,
  type AttentionCounters,
  type SlotVisibility,
} from '@kv/engine';
import { onnxAttend } from '../src/attention.ts';
import { onnxEngine } from '../src/engine.ts';
import type { Onnx, OnnxSession } from '../src/runtime.ts';
import { cases, close, query } from '@kv/engine-testing/attention-cases';
import { ort } from '@kv/model-testing/ort';
import { outputs, probabilities, type Sees } from '@kv/engine-testing/attention-oracle';

/** Everything through graphs, in tiles of 16 rows. */
const graphs = onnxAttend(ort, { threads: 2, small: 0, scores: 0 });

test('attention is the float64 softmax, with any mask, bound, scale and soft cap, and so are its column sums and maxima', async () => {
  const option = (min: number, max: number) => fc.option(fc.double({ min, max, noNaN: true }), { nil: undefined });
  await fc.assert(
    fc.asyncProperty(
      cases,
      fc.constantFrom('none', 'one', 'kv', 'query'),
      fc.option(fc.integer({ min: 0, max: 250 })),
      option(0.05, 2),
      option(0.5, 50),
      fc.infiniteStream(fc.boolean()),
      fc.boolean(),
      fc.boolean(),
      async (one, kind, bound, scale, softcap, bits, folded, shared) => {
        const { cache, heads, q, queryPositions, H, n } = one,
          rows = { none: 0, one: 1, kv: cache.heads, query: H }[kind];
        const mask = Uint8Array.from({ length: rows * n }, () => (bits.next().value === true ? 1 : 0));
        const lower = (p: number): number => Math.floor((p * (bound ?? 0)) / 250),
          how = { ...(scale !== undefined && { scale }), ...(softcap !== undefined && { softcap }) };
        const sees: Sees = (slot, position, p, h, g) =>
          (rows === 0 || mask[(rows === 1 ? 0 : rows === H ? h : g) * n + slot] === 1) &&
          (bound === null || position >= lower(p));
        const visible: SlotVisibility = { ...(rows === 0 ? {} : { mask }), ...(bound === null ? {} : { lower }) };
        const want = probabilities(query(one), [...queryPositions], heads, sees, how);
        const column = (join: (a: number, b: number) => number): number[] =>
          want.flatMap((of) =>
            Array.from({ length: n }, (_, j) =>
              j < of[0].shape[0] ? of.reduce((all, row) => join(all, row.get(j)), 0) : 0,
            ),
          );
        const fold = folded ? H / cache.heads : 1,
          // heads of one of two layers, in turn
          among = shared ? { all: 2 * H, rows: Uint32Array.from({ length: H }, (_, h) => 2 * h + 1) } : undefined,
          all = among?.all ?? H,
          columns = (rows: number): Float32Array => new Float32Array(rows * n),
          own = (of: Float32Array): Float32Array =>
            of.length === 2 * H * n ? of.filter((_, i) => Math.floor(i / n) % 2 === 1) : of,
          stats = { stride: n, among, columnSum: columns(folded ? cache.heads : all), columnMax: columns(all) };
        close(
          await graphs({ q, queryPositions, cache, visible, stats, ...how }),
          outputs(want, heads, cache.headDim).data,
        );
        const sums = column((a, b) => a + b);
        close(
          own(stats.columnSum),
          Array.from(own(stats.columnSum), (_, i) =>
            Array.from({ length: fold }, (__, r) => sums[(Math.floor(i / n) * fold + r) * n + (i % n)]).reduce(
              (a, b) => a + b,
              0,
            ),
          ),
        );
        close(own(stats.columnMax), column(Math.max));
      },
    ),
    { numRuns: 60 },
  );
});

test('calls are counted once, and rows that see nothing get zeros', async () => {
  const cache = new LayerCache(2, 4, new Ledger());
  cache.append(new Float32Array(24).fill(1), new Float32Array(24).fill(2), Uint32Array.of(5, 6, 7));
  const counters: AttentionCounters = { fused: 0, statistics: 0 },
    stats = { stride: 3, columnSum: new Float32Array(6) };
  const out = await graphs({ q: new Float32Array(16), queryPositions: Uint32Array.of(1, 6), cache, counters, stats });
  expect([...out]).toEqual([...Array<number>(8).fill(0), ...Array<number>(8).fill(2)]);
  expect([...stats.columnSum]).toEqual([0.5, 0.5, 0, 0.5, 0.5, 0]);
  expect(counters).toEqual({ fused: 1, statistics: 1 });
  const hidden = await graphs({
    q: new Float32Array(8),
    queryPositions: Uint32Array.of(9),
    cache,
    visible: { mask: new Uint8Array(3) },
  });
  expect([...hidden]).toEqual(Array<number>(8).fill(0));
  await expect(async () =>
    graphs({ q: new Float32Array(12), queryPositions: Uint32Array.of(7), cache }),
  ).rejects.toThrow('queries must be');
});

test('long blocks and single rows on ragged heads agree with the plain loops within 1e-5', async () => {
  const [G, R, d, n, m] = [2, 3, 64, 700, 150],
    cache = new LayerCache(G, d, new Ledger());
  const wave = (count: number, by: number): Float32Array =>
    Float32Array.from({ length: count }, (_, i) => Math.sin(i * by) * 2);
  cache.append(
    wave(G * n * d, 0.37),
    wave(G * n * d, 0.73),
    Uint32Array.from({ length: n }, (_, i) => i),
  );
  cache.keep([Uint32Array.from({ length: n }, (_, i) => i), Uint32Array.from({ length: 500 }, (_, i) => i + 200)]);
  for (const [rows, options] of [
    [m, { threads: 2 }],
    [1, { threads: 1, small: 0 }],
  ] as const) {
    const q = wave(G * R * rows * d, 0.11),
      queryPositions = Uint32Array.from({ length: rows }, (_, i) => n - rows + i);
    close(
      await onnxAttend(ort, options)({ q, queryPositions, cache }),
      attend({ q, queryPositions, cache, engine: plainEngine() }),
    );
  }
});

/** ONNX Runtime, and the number of its sessions that are open. */
function counted(): { readonly onnx: Onnx; open: number } {
  const made = {
    open: 0,
    onnx: {
      Tensor: ort.Tensor,
      InferenceSession: {
        async create(...given: Parameters<Onnx['InferenceSession']['create']>): Promise<OnnxSession> {
          const session: OnnxSession = await ort.InferenceSession.create(...given);
          made.open++;
          return {
            run: (...feeds) => session.run(...feeds),
            async release() {
              await session.release();
              made.open--;
            },
          };
        },
      },
    } satisfies Onnx,
  };
  return made;
}

test('windows of ever other lengths, several at once, leave few sessions open; a release leaves none', async () => {
  const runtime = counted(),
    cache = new LayerCache(1, 4, new Ledger()),
    many = onnxAttend(runtime.onnx, { threads: 1, small: 0 }),
    n = 40,
    wave = Float32Array.from({ length: 4 * n }, (_, i) => Math.sin(i));
  cache.append(
    wave,
    wave,
    Uint32Array.from({ length: n }, (_, i) => i),
  );
  const asked = async (queries: number, by: Attend): Promise<Float32Array> => {
    const columns = new Float32Array(n);
    await by({
      q: wave,
      queryPositions: Uint32Array.from({ length: n }, (_, i) => i),
      cache,
      stats: { stride: n, windows: [{ queries, columns }] },
    });
    return columns;
  };
  const widths = Array.from({ length: n }, (_, i) => i + 1);
  const got = await Promise.all([...widths, ...widths].map((queries) => asked(queries, many)));
  for (const [i, columns] of got.entries()) close(columns, await asked(widths[i % n], attend));
  await expect.poll(() => runtime.open).toBeLessThanOrEqual(16);
  many.release();
  await expect.poll(() => runtime.open).toBe(0);
  close(await asked(3, many), await asked(3, attend));
});

test('the sessions of attention end with the last program of the engine', async () => {
  const runtime = counted(),
    engine = onnxEngine(runtime.onnx, { threads: 1 }),
    x = { id: 0, width: 4 },
    program = { name: 'none', inputs: [x], outputs: [x], instructions: [] },
    cache = new LayerCache(1, 64, new Ledger()),
    wave = Float32Array.from({ length: 64 * 80 }, (_, i) => Math.sin(i)),
    queryPositions = Uint32Array.from({ length: 80 }, (_, i) => i);
  cache.append(wave, wave, queryPositions);
  const [first, second] = [await engine.prepare(program), await engine.prepare(program)];
  await engine.attend!({ q: wave, queryPositions, cache });
  expect(runtime.open).toBe(3);
  first.destroy();
  first.destroy();
  await expect.poll(() => runtime.open).toBe(2);
  second.destroy();
  await expect.poll(() => runtime.open).toBe(0);
});

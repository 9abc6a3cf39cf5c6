import fc from 'fast-check';
import { mulberry } from '@kv/core/shared';
import {
  attend,
  cacheForms,
  decodeRows,
  encodeRows,
  hostStore,
  LayerCache,
  Ledger,
  plainRows,
  type CacheForm,
} from '@kv/engine';
import { close, drawBiases } from '@kv/engine-testing/attention-cases';
import { expect, test } from 'vitest';
import { BytecodeWriter } from '../src/bytecode-writer.ts';
import { install, sizesOf } from '../src/install.ts';
import { PassBuffers } from '../src/pass-buffers.ts';
import { nowhere } from '../src/pass-run.ts';
import { copyRows, rowsAt } from '../src/rows.ts';
import { heapStore } from '../src/store.ts';
import { ThreadPool } from '../src/thread-pool.ts';
import { WeightArena } from '../src/weight-arena.ts';
import { anyForm, fitting, tolerance } from './cache-forms.ts';
import { modules } from './modules.ts';
import { drawSinks } from './sinks.ts';

const forms = Object.keys(cacheForms) as CacheForm[];
/** Numbers as keys have them, and those at which rounding is hard. */
const hard = fc.oneof(
  fc.double({ min: -4, max: 4, noNaN: true }),
  fc.constantFrom(0, -0, 1e-40, -3e-8, 6e-5, 65504, 65520, -1e6, 1e30, 0.5, 2.5),
);

test.each(modules)('%s: rows are stored and read, to the bit, as the reference says', async (_, fast) => {
  const pool = await ThreadPool.start(fast, 1, () => {}),
    store = heapStore(pool);
  fc.assert(
    fc.property(
      fc.constantFrom(...forms),
      fc.constantFrom(32, 64, 96),
      fc.integer({ min: 1, max: 4 }),
      fc.array(hard, { minLength: 384, maxLength: 384 }),
      (form, d, n, numbers) => {
        const shape = { heads: 1, headDim: d, capacity: n + 1, form, rebased: false },
          [got, want] = [store.create(shape), hostStore.create(shape)],
          x = Float32Array.from(numbers.slice(0, n * d)),
          [back, truth] = [new Float32Array(n * d), new Float32Array(n * d)];
        for (const part of ['keys', 'values'] as const) {
          store.encode(plainRows(got[part]), d, 1, x);
          encodeRows(plainRows(want[part]), d, 1, x);
          for (const plane of ['codes', 'scales'] as const) {
            const from = want[part][plane].length / (n + 1);
            expect([...got[part][plane].subarray(from)]).toEqual([...want[part][plane].subarray(from)]);
          }
          store.decode(plainRows(got[part]), d, 1, n, back);
          decodeRows(plainRows(want[part]), d, 1, n, truth);
          expect(back).toEqual(truth);
        }
        store.release(got);
      },
    ),
    { numRuns: 100 },
  );
  expect(store.bytes).toBe(0);
  pool.destroy();
});

test.each(modules.slice(0, 2))('%s: slots are demoted, to the bit, as the reference says', async (_, fast) => {
  const pool = await ThreadPool.start(fast, 1, () => {}),
    stores = [heapStore(pool), hostStore];
  fc.assert(
    fc.property(
      fc.constantFrom(...forms),
      fc.constantFrom(32, 96),
      fc.oneof(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 120, max: 140 })),
      fc.array(hard, { minLength: 50, maxLength: 50 }),
      fc.infiniteStream(fc.nat(11)),
      (form, d, n, numbers, draws) => {
        const x = Float32Array.from({ length: 2 * n * d }, (_, i) => numbers[(i * 7 + (i >> 5)) % 50]),
          caches = stores.map((store) => new LayerCache(2, d, new Ledger(), { store, form })),
          draw = (): number => draws.next().value as number;
        for (const cache of caches)
          cache.append(
            x,
            x.map((v) => -v / 3),
            Uint32Array.from({ length: n }, (_, i) => i),
          );
        // the second and third move slots within their storage
        for (let turn = 0; turn < 3; turn++) {
          const kept = [0, 1].map((g) =>
              Uint32Array.from({ length: caches[0].lengths[g] }, (_, i) => i).filter(() => draw() > 1),
            ),
            levels = kept.map((of) => Uint8Array.from(of, () => Math.floor(draw() / 3) + Number(draw() > 5)));
          for (const cache of caches) cache.keep(kept, 0, levels);
          const [got, want] = caches.map((cache) => {
            const { keys, values, positions } = cache.slots(),
              arrays = [keys.codes, keys.scales, values.codes, values.scales, positions, cache.read('keys', 1)];
            return Buffer.concat(
              arrays.map(({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength)),
            );
          });
          expect(got.equals(want)).toBe(true);
        }
        for (const cache of caches) cache.destroy();
      },
    ),
    { numRuns: 40 },
  );
  expect(stores[0]).toMatchObject({ bytes: 0 });
  pool.destroy();
});

const shapes = fc.record({
  seed: fc.integer(),
  G: fc.integer({ min: 1, max: 3 }),
  group: fc.integer({ min: 1, max: 5 }),
  d: fc.constantFrom(8, 12, 32, 64, 128, 256),
  form: anyForm,
  n: fc.oneof(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 200, max: 600 })),
  held: fc.constantFrom(0.3, 1),
  levels: fc.boolean(),
  window: fc.constantFrom(0, 0, 50),
  softcap: fc.option(fc.constantFrom(0.5, 20), { nil: undefined }),
});

test.each(modules)('%s: a token joins a cache of any form, and attends as plain loops do', async (_, fast) => {
  const pool = await ThreadPool.start(fast, 2, () => {}),
    store = heapStore(pool);
  fc.assert(
    fc.property(shapes, ({ seed, G, group, d, form: chosen, n, held, levels, window, softcap }) => {
      const form = fitting(chosen, d),
        draw = mulberry(seed),
        H = G * group,
        scale = 1 / Math.sqrt(d),
        sinks = drawSinks(H, draw),
        numbers = (count: number): Float32Array => Float32Array.from({ length: count }, () => 4 * draw() - 2),
        positions = Uint32Array.from({ length: n }, (_, i) => i);
      const inside = new LayerCache(G, d, new Ledger(), { store, form });
      inside.append(numbers(G * n * d), numbers(G * n * d), positions);
      const kept = Array.from({ length: G }, () => positions.filter(() => draw() < held)),
        most = d % 32 === 0 ? 5 : 3;
      inside.keep(kept, 0, levels ? kept.map((of) => Uint8Array.from(of, () => Math.floor(most * draw()))) : undefined);
      drawBiases(inside, draw);
      const outside = new LayerCache(G, d, new Ledger(), { form });
      outside.restore([...inside.lengths], inside.slots());
      const [q, k, v] = [numbers(H * d), numbers(G * d), numbers(G * d)];
      outside.append(k, v, Uint32Array.of(n));
      inside.grow(1);

      const arena = new WeightArena(pool, true),
        code = new BytecodeWriter(sizesOf(pool), 1),
        rows = [H, G, G].map((heads) => code.stream.value(heads * d, true)),
        out = code.attention(rows[0], rows[1], rows[2], {
          ...{
            queryHeads: H,
            kvHeads: G,
            headDim: d,
            scale,
            softcap,
            window,
            sinks: sinks ? arena.array(sinks) : 0,
            layer: 0,
            rank: 0,
            cache: 0,
            eight: false,
          },
        }),
        loaded = install(pool, arena, code),
        buffers = new PassBuffers(pool, false),
        angles = { rotary: 0, cos: new Float32Array(0), sin: new Float32Array(0) },
        command = buffers.command(loaded, 1, angles, { caches: [inside], states: [] }),
        shares = buffers.shares(1, H, inside.length + 1);
      for (const [i, x] of [q, k, v].entries()) copyRows(x, x.length, rowsAt(pool.heap, command, rows[i], 1), 1);
      pool.call({ ...command, ...nowhere, ...shares, position: n });
      inside.extend(Uint32Array.of(n));
      const stats = { stride: outside.length, columnSum: new Float32Array(H * outside.length) },
        want = attend({
          ...{ q, queryPositions: Uint32Array.of(n), cache: outside, scale, stats },
          ...(window > 0 && { visible: { lower: (p: number) => Math.max(0, p - window + 1) } }),
          ...(softcap !== undefined && { softcap }),
          ...(sinks && { sinks }),
        });
      close(rowsAt(pool.heap, command, out, 1).data.subarray(0, H * d), want, tolerance[form]);
      for (let h = 0; h < H; h++)
        close(
          pool.heap.floats(shares.shares + 4 * h * shares.stride, outside.lengths[Math.floor(h / group)]).slice(),
          stats.columnSum.subarray(h * outside.length, h * outside.length + outside.lengths[Math.floor(h / group)]),
          tolerance[form],
        );
      for (const part of ['keys', 'values'] as const)
        for (let g = 0; g < G; g++) expect(inside.read(part, g)).toEqual(outside.read(part, g));
      buffers.free();
      arena.free();
      for (const cache of [inside, outside]) cache.destroy();
    }),
    { numRuns: 20 },
  );
  expect(store.bytes).toBe(0);
  pool.destroy();
});

import fc from 'fast-check';
import { mulberry } from '@kv/core/shared';
import { attend, LayerCache, Ledger, listShown } from '@kv/engine';
import type { SlotVisibility } from '@kv/engine';
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

const shapes = fc.record({
  seed: fc.integer(),
  G: fc.integer({ min: 1, max: 3 }),
  group: fc.integer({ min: 1, max: 4 }),
  d: fc.constantFrom(8, 12, 32, 64, 128),
  form: anyForm,
  n: fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 200, max: 900 })),
  /** Share of slots that each head still holds. */
  held: fc.constantFrom(0, 0.6, 1),
  softcap: fc.option(fc.constantFrom(0.5, 20), { nil: undefined }),
  views: fc.array(
    fc.record({
      rows: fc.constantFrom('none', 'one', 'kv', 'query'),
      shown: fc.constantFrom(0, 0.1, 0.9, 1),
      run: fc.constantFrom(1, 16, 100),
      sinks: fc.integer({ min: 0, max: 60 }),
      bound: fc.option(fc.double({ min: 0, max: 1.1, noNaN: true }), { nil: undefined }),
    }),
    { maxLength: 3 },
  ),
});

test.each(modules)(
  '%s: a token over lists of what views show attends as under their masks and bounds',
  async (_, fast) => {
    const pool = await ThreadPool.start(fast, 2, () => {}),
      store = heapStore(pool);
    fc.assert(
      fc.property(shapes, ({ seed, G, group, d, form: chosen, n, held, softcap, views: random }) => {
        const draw = mulberry(seed),
          form = fitting(chosen, d),
          H = G * group,
          scale = 1 / Math.sqrt(d),
          learned = drawSinks(H, draw),
          numbers = (count: number): Float32Array => Float32Array.from({ length: count }, () => 4 * draw() - 2),
          positions = Uint32Array.from({ length: n }, (_, i) => 3 * i + 1),
          position = positions[n - 1];
        const cache = new LayerCache(G, d, new Ledger(), { store, form });
        cache.append(numbers(G * n * d), numbers(G * n * d), positions);
        cache.keep(
          Array.from({ length: G }, () =>
            Uint32Array.from([...positions.keys()].filter((j) => j === n - 1 || draw() < held)),
          ),
        );
        drawBiases(cache, draw);
        const slots = cache.length;
        const visible = random.map(({ rows, shown, run, sinks, bound }): SlotVisibility => {
          const mask = new Uint8Array({ none: 0, one: 1, kv: G, query: H }[rows] * slots);
          for (let j = 0; j < mask.length; j += run) mask.fill(draw() < shown ? 1 + (j % 3) : 0, j, j + run);
          return {
            ...(rows !== 'none' && { mask }),
            sinks,
            ...(bound !== undefined && { lower: (p: number) => Math.floor(bound * p) }),
          };
        });
        const [q, unused] = [numbers(H * d), new Float32Array(G * d).fill(NaN)],
          wantShares = new Float32Array(H * slots),
          want = attend({
            ...{ q, queryPositions: Uint32Array.of(position), cache, visible, scale },
            stats: { stride: slots, columnSum: wantShares },
            ...(softcap !== undefined && { softcap }),
            ...(learned && { sinks: learned }),
          });

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
              window: 7,
              sinks: learned ? arena.array(learned) : 0,
              layer: 0,
              rank: 0,
              cache: 0,
              eight: false,
            },
          }),
          loaded = install(pool, arena, code),
          buffers = new PassBuffers(pool, false),
          { at: lists } = buffers.lists(H, slots, (to, stride) => listShown(visible, cache, H, position, to, stride)),
          angles = { rotary: 0, cos: new Float32Array(0), sin: new Float32Array(0) },
          command = buffers.command(loaded, 1, angles, { caches: [cache], states: [] }, [{ layer: 0, lists }]);
        // keys and values are in the cache already: what lies in their rows is not read, nor is the layer's window
        for (const [i, x] of [q, unused, unused].entries())
          copyRows(x, x.length, rowsAt(pool.heap, command, rows[i], 1), 1);
        const summed = buffers.shares(1, H, slots);
        pool.heap.floats(summed.shares, H * summed.stride).fill(NaN);
        for (const shares of [nowhere, summed]) {
          pool.call({ ...command, ...nowhere, ...shares, position });
          close(rowsAt(pool.heap, command, out, 1).data.subarray(0, H * d), want, tolerance[form]);
        }
        for (let h = 0; h < H; h++) {
          const n = cache.lengths[Math.floor(h / group)];
          close(
            pool.heap.floats(summed.shares + 4 * h * summed.stride, n),
            wantShares.subarray(h * slots, h * slots + n),
            tolerance[form],
          );
        }
        buffers.free();
        arena.free();
        cache.destroy();
      }),
      { numRuns: 100 },
    );
    expect(store.bytes).toBe(0);
    pool.destroy();
  },
);

import fc from 'fast-check';
import { mulberry } from '@kv/core/shared';
import { attend, floats, LayerCache, Ledger } from '@kv/engine';
import { close, drawBiases } from '@kv/engine-testing/attention-cases';
import { expect, test } from 'vitest';
import { hiddenRanges } from '../src/block-hooks.ts';
import { BytecodeWriter } from '../src/bytecode-writer.ts';
import { install, sizesOf } from '../src/install.ts';
import { PassBuffers } from '../src/pass-buffers.ts';
import { nowhere } from '../src/pass-run.ts';
import { copyRows, rowsAt } from '../src/rows.ts';
import { heapStore } from '../src/store.ts';
import { ThreadPool } from '../src/thread-pool.ts';
import { WeightArena } from '../src/weight-arena.ts';
import { anyForm, fitting } from './cache-forms.ts';
import { modules } from './modules.ts';
import { drawSinks } from './sinks.ts';

const rows = 96;
const shapes = fc.record({
  seed: fc.integer(),
  G: fc.integer({ min: 1, max: 3 }),
  group: fc.integer({ min: 1, max: 3 }),
  d: fc.constantFrom(12, 32, 64),
  form: anyForm,
  /** Slots before the block, and the share of them that each head still holds. */
  n: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 40 }), fc.integer({ min: 200, max: 500 })),
  held: fc.constantFrom(0.5, 1),
  m: fc.integer({ min: 1, max: rows }),
  softcap: fc.option(fc.constantFrom(0.5, 20), { nil: undefined, freq: 1 }),
  window: fc.constantFrom(0, 0, 0, 30, 400),
  views: fc.array(
    fc.record({
      sinks: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 300 })),
      /** The bound: this much of the query's position, or for each query any number up to a few beyond it. */
      percent: fc.option(fc.integer({ min: 0, max: 100 }), { nil: undefined }),
    }),
    { minLength: 1, maxLength: 3 },
  ),
});

test.each(modules)(
  '%s: a block attends under bounds as plain loops do, and reads no slots that none of it sees',
  async (_, fast) => {
    const pool = await ThreadPool.start(fast, 2, () => {}),
      store = heapStore(pool);
    fc.assert(
      fc.property(shapes, ({ seed, G, group, d, form: chosen, n, held, m, softcap, window, views }) => {
        const draw = mulberry(seed),
          form = fitting(chosen, d),
          H = G * group,
          scale = 4 / Math.sqrt(d), // weights far from uniform
          sinks = drawSinks(H, draw),
          numbers = (count: number): Float32Array => Float32Array.from({ length: count }, () => 2 * draw() - 1),
          queryPositions = Uint32Array.from({ length: m }, (_, i) => n + i),
          bounds = views.map(({ sinks, percent }) => {
            const any = Array.from({ length: m }, (_, i) => Math.floor(draw() * (n + i + 5)));
            return {
              sinks,
              lower: (t: number) => (percent === undefined ? any[t - n] : Math.floor((percent * t) / 100)),
            };
          });
        const cache = new LayerCache(G, d, new Ledger(), { store, form });
        cache.append(
          numbers(G * n * d).map((x) => x + 1.5), // what keys share changes what a sink is worth
          numbers(G * n * d),
          Uint32Array.from({ length: n }, (_, i) => i),
        );
        cache.keep(Array.from({ length: G }, () => Uint32Array.from(Array(n).keys()).filter(() => draw() < held)));
        drawBiases(cache, draw);
        cache.grow(m);
        const [q, k, v] = [H, G, G].map((heads) => numbers(heads * m * d)), // `[m, heads * d]`
          eights = pool.kernels.eights(d) ? [false, true] : [false];
        for (const eight of eights) {
          const arena = new WeightArena(pool, true),
            code = new BytecodeWriter(sizesOf(pool), rows),
            places = [H, G, G].map((heads) => code.stream.value(heads * d, true)),
            out = code.attention(places[0], places[1], places[2], {
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
                eight,
              },
            }),
            loaded = install(pool, arena, code),
            buffers = new PassBuffers(pool, eight),
            ranges = hiddenRanges(bounds, queryPositions),
            command = buffers.command(
              loaded,
              m,
              { rotary: 0, cos: new Float32Array(0), sin: new Float32Array(0) },
              { caches: [cache], states: [] },
              ranges && buffers.hidden([[0, ranges]]),
            ),
            before = [...cache.lengths];
          for (const [i, x] of [q, k, v].entries())
            copyRows(x, x.length / m, rowsAt(pool.heap, command, places[i], m), m);
          cache.extend(queryPositions);
          const shares = buffers.shares(1, H, cache.length),
            call = { ...command, ...nowhere, ...shares, sums: buffers.sums([[0, 0]]), position: n };
          const run = (): Float32Array => {
            pool.call(call);
            const { data, stride } = rowsAt(pool.heap, command, out, m);
            return Float32Array.from(
              { length: m * H * d },
              (_, i) => data[Math.floor(i / (H * d)) * stride + (i % (H * d))],
            );
          };
          const got = run(),
            visible = [...bounds, ...(window === 0 ? [] : [{ lower: (p: number) => Math.max(0, p - window + 1) }])],
            stats = { stride: cache.length, columnSum: new Float32Array(H * cache.length) },
            want = attend({
              q: Float32Array.from({ length: H * m * d }, (_, i) => {
                const [h, r, c] = [Math.floor(i / (m * d)), Math.floor(i / d) % m, i % d];
                return q[(r * H + h) * d + c];
              }),
              ...{ queryPositions, cache, visible, scale, stats },
              ...(softcap !== undefined && { softcap }),
              ...(sinks && { sinks }),
            });
          if (eight) got.forEach((x, i) => expect(Math.abs(x - want[i])).toBeLessThan(0.1));
          else {
            close(got, want);
            for (let h = 0; h < H; h++)
              close(
                pool.heap.floats(shares.shares + 4 * h * shares.stride, cache.length).slice(),
                stats.columnSum.subarray(h * cache.length, (h + 1) * cache.length),
              );
            for (let g = 0; form === 'f32' && g < G; g++) {
              const at = g * cache.capacity,
                hides = (p: number, t: number): boolean =>
                  bounds.some(({ sinks, lower }) => p >= sinks && p < lower(t));
              for (let j = 0; j + 32 <= before[g]; j += 32) {
                const [first, last] = [cache.positions[at + j], cache.positions[at + j + 31]];
                for (let p = first; queryPositions.every((t) => hides(p, t)); p++) {
                  if (p < last) continue;
                  floats(cache.values.codes).fill(NaN, (at + j) * d, (at + j + 32) * d);
                  break;
                }
              }
            }
            expect(run()).toEqual(got);
          }
          cache.lengths.set(before);
          buffers.free();
          arena.free();
        }
        cache.destroy();
      }),
      { numRuns: 20 },
    );
    pool.destroy();
  },
);

test('ranges that several bounds hide are joined, and end before the query', () => {
  const to = (until: number) => (): number => until;
  const bounds = [
    { sinks: 3, lower: to(9) },
    { sinks: 0, lower: to(5) },
    { sinks: 12, lower: to(100) },
    { sinks: 7, lower: to(2) },
  ];
  expect(hiddenRanges(bounds, Uint32Array.of(4, 20))).toEqual(Uint32Array.of(2, ...[0, 4, 0, 0], ...[0, 9, 12, 20]));
  expect(hiddenRanges(bounds, Uint32Array.of(0))).toBeUndefined();
});

import { onlyAttention } from '@kv/checkpoints';
import fc from 'fast-check';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compose, positions, scorer } from '@kv/core';
import { cpu, readCpu } from '@kv/cpu';
import type { Policy, Products } from '@kv/core';
import { cpuWith, plainProducts } from '@kv/cpu/engine';
import { gram, quadratic } from '@kv/core/shared';
import { writeTinyModel } from '@kv/model-testing';
import { inTurn } from '@kv/model-testing/in-turn';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import { afterAll, expect, test } from 'vitest';
import { layersTogether, referenceEngine } from '@kv/engine';
import { cpuRuntime, generate, hostRuntime, loadModel, Sequence } from '../src/index.ts';
import { heapKernels, heapProducts, fastModule, ThreadPool } from '@kv/engine-wasm';

const folder = mkdtempSync(join(tmpdir(), 'kv-events-'));
afterAll(() => rmSync(folder, { recursive: true }));

test('events of several layers run together where caches are small: the same slots, a peak of as many whole layers', async () => {
  const path = writeTinyModel(folder, { layers: 14 }),
    ids = Array.from({ length: 200 }, (_, i) => (i * 37 + (i >> 3)) % 250),
    options = { ids, policy: compose(snapkv({ window: 8 }), topK()), budget: 20, maxNewTokens: 6 };
  const own = await generate(await loadModel(path, { runtime: cpuRuntime({ exact: true }) }), options),
    plain = await generate(await loadModel(path, { runtime: hostRuntime({ engine: referenceEngine() }) }), options);
  expect(own.tokens).toEqual(plain.tokens);
  expect(own.report.kept).toEqual(plain.report.kept);
  const layer = 2 * 4 * (2 * 8 + 1),
    // 4 query heads of 8 numbers and a position; the attention that each of them gave a slot
    beside = 8 * 4 * (4 * 8 + 1) + 4 * 4 * 200,
    peak = (whole: number): number => whole * (layer * 200 + beside) + (14 - whole) * layer * 20;
  expect([own.report.bytes.peak, plain.report.bytes.peak]).toEqual([peak(2), peak(1)]);
});

test('what reads positions alone runs once for all layers, and in each where it asks for their number', async () => {
  const path = writeTinyModel(folder, { layers: 14 }),
    ids = Array.from({ length: 200 }, (_, i) => (i * 37 + (i >> 3)) % 250);
  let runs = 0;
  const near = scorer('near', { needs: [positions] }, ({ ops, positions: p }) => {
      runs++;
      return ops.float(p);
    }),
    own = scorer('own', { needs: [positions] }, ({ ops, at: { layer }, positions: p }) => {
      runs++;
      return ops.atLeast(p, 10 * layer);
    });
  for (const runtime of [cpuRuntime({ exact: true }), hostRuntime({ engine: referenceEngine() })]) {
    const model = await loadModel(path, { runtime }),
      kept = async (policy: Policy): Promise<readonly number[][][]> => {
        runs = 0;
        const sequence = new Sequence(model);
        await sequence.prefill(ids, { policy, budget: 20 });
        return sequence.kept();
      };
    const last = await kept(compose(near(), topK()));
    expect([runs, new Set(last.flat().map(String)).size]).toEqual([1, 1]);
    expect(last[13][1]).toEqual(Array.from({ length: 20 }, (_, i) => 180 + i));
    const first = await kept(compose(own(), topK()));
    expect([runs, new Set(first.map(String)).size]).toEqual([14, 14]);
  }
});

test('one layer where its cache is large, a sixth of the layers at most', () => {
  const shape = (layers: number): Parameters<typeof layersTogether>[0] => ({
    layers,
    mixers: onlyAttention(layers, { kvHeads: 3, headDim: 64 }),
  });
  for (const [form, counts] of [
    ['f32', [5, 5, 5, 2, 1, 1]],
    ['q8', [5, 5, 5, 5, 4, 1]],
  ] as const)
    expect([1, 512, 1024, 2048, 4096, 100_000].map((slots) => layersTogether(shape(30), slots, form))).toEqual(counts);
  expect(layersTogether(shape(4), 10, 'f32')).toBe(1);
});

test('products where numbers lie have the bits of those elsewhere, before and after the memory grew', async () => {
  const pool = await ThreadPool.start((await fastModule())!, 1, () => {}), // tests run only where there is one
    counted = { inPlace: 0 },
    { ops } = cpuWith((apart) => heapProducts(pool, apart));
  fc.assert(
    fc.property(
      fc.record({
        heads: fc.integer({ min: 1, max: 3 }),
        group: fc.integer({ min: 1, max: 3 }),
        n: fc.integer({ min: 1, max: 700 }),
        d: fc.constantFrom(4, 8, 12, 64),
        seed: fc.integer({ min: 1, max: 1000 }),
        grow: fc.boolean(),
      }),
      ({ heads, group, n, d, seed, grow }) => {
        const numbers = (length: number, by: number): Float32Array =>
            Float32Array.from({ length }, (_, i) => Math.fround(Math.sin(by * (i + seed)))),
          x = numbers(heads * n * d, 1.1),
          at = pool.heap.allocate(x.byteLength),
          here = pool.heap.floats(at, x.length);
        here.set(x);
        if (grow) pool.heap.allocate(70_000);
        counted.inPlace += Number(pool.heap.holds(here));
        expect(pool.heap.holds(x)).toBe(false);
        const shape = [heads, n, d],
          rows = heads * group,
          q = { data: numbers(rows * d, 0.7), shape: [rows, d] },
          p = { data: numbers(rows * n, 0.3), shape: [rows, n] };
        const all = (by: typeof ops, data: Float32Array): unknown => {
          const v = by.from({ data, shape }, 'f32');
          return [
            by.norm(v),
            by.dot(by.from(q), v),
            by.distance(by.from(q), v),
            by.matmul(by.from(p), v),
            by.reduce('mean', v, 'slots'),
          ].map((made) => ('data' in made ? made.data : undefined));
        };
        expect(all(ops, here)).toEqual(all(cpu.ops, x));
      },
    ),
  );
  expect(counted.inPlace).toBeGreaterThan(0);
  pool.destroy();
});

test('products of a few vectors at the end of memory read and write no more than those', async () => {
  const pool = await ThreadPool.start((await fastModule())!, 1, () => {}),
    by = heapProducts(pool, plainProducts);
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 16 }), fc.nat(300), (n, d, more) => {
      const length = 4 * n * d,
        at = pool.heap.allocate(length),
        here = pool.heap.floats(at, n * d).fill(0.5),
        q = new Float32Array(d).fill(0.25);
      const made = [by, plainProducts].map((products) =>
        (['norms', 'dots', 'distances'] as const).map((name) => {
          const out = new Float32Array(n + more).fill(7);
          if (name === 'norms') products.norms(here, d, out);
          else products[name](q, here, d, out);
          return out;
        }),
      );
      pool.heap.free(at, length);
      expect(made[0]).toEqual(made[1]);
      for (const out of made[0]) expect(out.subarray(n).every((x) => x === 7)).toBe(true);
    }),
  );
  const end = pool.heap.memory.buffer.byteLength - 4 * 4,
    out = new Float32Array(1000);
  by.norms(pool.heap.floats(end, 4), 2, out);
  expect(out.subarray(2).every((x) => x === 0)).toBe(true);
  pool.destroy();
});

test('products in f32 are as those of one thread on several, and within rounding those of the host', async () => {
  const fast = (await fastModule())!, // tests run only where there is one
    pools = await Promise.all([1, 3].map((threads) => ThreadPool.start(fast, threads, () => {}))),
    host = plainProducts,
    hosts: Products[] = [];
  cpuWith((products) => hosts[hosts.push(products) - 1]);
  const [one, three] = pools.map((pool) => heapProducts(pool, host));
  const random = (length: number): Float32Array =>
    Float32Array.from({ length }, (_, i) => Math.fround(Math.sin(1.7 * i * i + length)));
  const shapes = [
    [3, 256, 40, 64],
    [2, 300, 190, 12],
    [1, 5, 4500, 65],
    [1, 700, 1100, 4],
  ];
  for (const [heads, each, n, d] of inTurn(shapes, 2)) {
    const [q, x] = [random(heads * each * d), random(n * d)];
    const agree = (size: number, run: (by: Products, out: Float32Array) => void): void => {
      const [a, b, simd, c] = [one, three, ...hosts, host].map((by) => {
        const out = new Float32Array(size);
        run(by, out);
        return out;
      });
      expect(a).toEqual(b);
      for (const got of [a, simd]) {
        const off = got.map((y, i) => Math.abs(y - c[i]) / Math.max(1, Math.abs(c[i])));
        expect(off.reduce((most, x) => Math.max(most, x), 0)).toBeLessThan(d * 2 ** -22);
      }
    };
    agree(heads * each * n, (by, out) => by.multiply(q, x, d, out));
    agree(heads * n, (by, out) => by.mass(q, x, d, out));
    const seen = Float32Array.from({ length: heads * each }, (_, r) => (7 * r) % (n + 1));
    agree(heads * each * n, (by, out) => by.attend(q, x, d, seen, out));
    const h = random(heads * each * n).map((p) => (p + 1) / 2.5);
    agree(heads * n, (by, out) => by.errors(q, x, d, h, out));
    const places = [one, three, ...hosts, host].map((by) => {
      const out = new Uint32Array(heads * each);
      by.nearest(q, x, d, out);
      return out;
    });
    for (const of of places) expect(of).toEqual(places[0]);
    for (const p of [1, 2] as const) agree(heads * each, (by, out) => by.reach(q, x, d, p, out));
  }
  for (const pool of pools) pool.destroy();
});

test('matrices of vectors, and what they make of vectors, are to the bit those of one thread', async () => {
  const pool = await ThreadPool.start((await fastModule())!, 3, () => {}),
    { ops } = cpuWith((apart) => heapProducts(pool, apart), heapKernels(pool));
  const random = (...shape: number[]) => ({
    data: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => Math.sin(1.7 * i * i + shape[0])),
    shape,
  });
  for (const [heads, group, n, d, ragged] of [
    [2, 3, 700, 64, false],
    [3, 2, 1025, 40, true],
  ] as const) {
    const all = (by: typeof ops): unknown => {
      const lengths = ragged ? by.from({ data: Uint32Array.of(n, 130, 0), shape: [heads] }) : undefined,
        x = by.from(random(heads, n, d), 'f32', lengths),
        c = by.from(random(1, d)),
        m = by.kernel(gram, { x, w: by.from(random(heads * group, n)), c });
      return [m, by.kernel(quadratic, { x, m, c: by.from(random(heads, d)) })].map((made) => readCpu(made));
    };
    expect(all(ops)).toEqual(all(cpu.ops));
  }
  pool.destroy();
});

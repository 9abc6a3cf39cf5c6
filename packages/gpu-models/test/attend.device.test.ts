import { numbers, random } from '@kv/gpu-testing';
import { attend, Ledger, LayerCache } from '@kv/engine';
import type { AttendOptions, AttentionStats, Visible } from '@kv/engine';
import fc from 'fast-check';
import { expect } from 'vitest';
import { gpuAttend } from '../src/index.ts';
import { everywhere, gpuTests, near } from './device.ts';

const gpuTest = await gpuTests();
const [G, H, d] = [2, 4, 12];

/** A cache of ragged heads, queries behind it, and what a host may ask for beside plain attention. */
function scene(
  seed: number,
  m: number,
  slots: number,
  softcap: boolean,
): { readonly options: AttendOptions; readonly n: number } {
  const next = random(seed),
    cache = new LayerCache(G, d, new Ledger()),
    data = (salt: number, size: number): Float32Array => numbers(seed + salt, size).map((x) => x / 4);
  cache.append(
    data(1, G * slots * d),
    data(2, G * slots * d),
    Uint32Array.from({ length: slots }, (_, i) => 2 * i),
  );
  cache.keep(
    Array.from({ length: G }, (_, g) =>
      Uint32Array.from({ length: slots }, (_, i) => i).filter((i) => i === slots - 1 || g === 0 || next() < 0.7),
    ),
    3,
  );
  const queryPositions = Uint32Array.from({ length: m }, (_, i) => 2 * slots - 2 + 3 * i),
    n = cache.length,
    size = (rows: number): Uint8Array => Uint8Array.from({ length: rows * n }, () => (next() < 0.3 ? 0 : 1));
  const visible: Visible[] = [
    { lower: (p: number) => p / 3 - 2.5 },
    { lower: (p: number) => p - 20, sinks: 3 },
    { mask: size(H) },
    { mask: size(G) },
    { mask: size(1) },
  ].filter(() => next() < 0.5);
  return {
    n,
    options: {
      cache,
      q: data(3, H * m * d),
      queryPositions,
      visible: visible.length === 1 ? visible[0] : visible,
      ...(softcap && { softcap: 2 }),
      ...(next() < 0.5 && { scale: 0.4 }),
    },
  };
}

gpuTest('attention over a cache of the host, its views and statistics, is that of the plain loops', (gpu) =>
  everywhere(
    fc.tuple(fc.nat(), fc.constantFrom(1, 3, 17), fc.constantFrom(1, 40), fc.boolean(), fc.constantFrom(H, G)),
    async ([seed, m, slots, softcap, rows]) => {
      const { options, n } = scene(seed, m, slots, softcap),
        stats = (): Omit<Required<AttentionStats>, 'windows'> => ({
          stride: n + 2,
          columnSum: numbers(seed, rows * (n + 2)).map(Math.abs),
          columnMax: new Float32Array(H * (n + 2)),
        });
      const [host, device] = [stats(), stats()],
        counters = { fused: 0, statistics: 0 },
        want = attend({ ...options, stats: host });
      const got = await gpuAttend(gpu, 1)({ ...options, stats: device, counters });
      near(got as Float32Array, want as Float32Array, () => 1e-5, 'attended');
      near(device.columnSum, host.columnSum, () => 1e-5 * m, 'column sums');
      near(device.columnMax, host.columnMax, () => 1e-5, 'column maxima');
      expect(counters).toEqual({ fused: 1, statistics: 1 });
    },
    8,
  ),
);

gpuTest('few queries, and queries out of order, stay on the host; what does not fit is refused', async (gpu) => {
  const { options } = scene(1, 3, 8, false),
    before = gpu.counters.dispatches,
    attends = gpuAttend(gpu, 4);
  expect(await attends(options)).toEqual(attend(options));
  const turned = { ...options, queryPositions: options.queryPositions.slice().reverse() };
  expect(await gpuAttend(gpu, 1)(turned)).toEqual(attend(turned));
  expect(gpu.counters.dispatches).toBe(before);
  await expect(gpuAttend(gpu, 1)({ ...options, q: new Float32Array(5) })).rejects.toThrow(
    /^attend: queries must be \[H, 3, 12\] with H a multiple of 2, got 5 numbers/,
  );
  await expect(gpuAttend(gpu, 1)({ ...options, visible: { mask: new Uint8Array(5) } })).rejects.toThrow(
    /^attend: a mask must have 1, 2 or 4 rows of 8 slots, got 5 numbers/,
  );
});

import { numbers } from '@kv/gpu-testing';
import { Ledger } from '@kv/engine';
import fc from 'fast-check';
import { expect } from 'vitest';
import type { DeviceScope } from '../src/sequence/device-scope.ts';
import { DeviceRing } from '../src/sequence/ring.ts';
import { everywhere, gpuTests } from './device.ts';

const gpuTest = await gpuTests();

/** What a ring goes through: new queries, a copy, a file and back, rotations of its own. */
type Turn = { readonly push: number } | 'fork' | 'file' | 'rotations';

gpuTest('a ring holds the last queries in as many bytes as they need, through copies and files', (gpu) =>
  everywhere(
    fc.record({
      seed: fc.nat(),
      window: fc.integer({ min: 1, max: 9 }),
      heads: fc.constantFrom(1, 2, 3),
      headDim: fc.constantFrom(1, 4),
      readers: fc.constantFrom(1, 2),
      turns: fc.array(
        fc.oneof(
          fc.record({ push: fc.integer({ min: 0, max: 7 }) }) as fc.Arbitrary<Turn>,
          fc.constantFrom<Turn[]>('fork', 'file', 'rotations'),
        ),
        { minLength: 1, maxLength: 8 },
      ),
    }),
    async ({ seed, window, heads, headDim: d, readers: count, turns }) => {
      const scope = gpu.open(),
        { commands } = scope,
        H = heads * count,
        // a KV head's rows are those of every reader in turn
        rows = Array.from({ length: count }, (_, r) => Uint32Array.from({ length: heads }, (__, h) => h * count + r)),
        device = (): DeviceScope => ({ scope, ledger: new Ledger() }),
        made = (on: DeviceScope): DeviceRing => new DeviceRing(window, rows, { kvHeads: heads, headDim: d }, on);
      let on = device(),
        ring = made(on),
        rotated = false;
      const queries: Float32Array[] = []; // `[H, d]` of each token
      for (const [at, turn] of turns.entries()) {
        if (turn === 'rotations') {
          ring.markRotations();
          rotated = true;
        } else if (turn === 'fork' || turn === 'file') {
          const to = device(),
            copy = turn === 'fork' ? ring.fork(to) : made(to);
          if (turn === 'file') {
            const [{ data }] = await scope.read([ring.queries(commands)]),
              saved = ring.saved(data as Float32Array);
            expect([saved.queries.length, saved.positions.length]).toEqual([window * H * d, window]);
            copy.restore(saved);
          }
          ring.destroy();
          expect(on.ledger.entry('rings')).toMatchObject({ allocated: 0, live: 0 });
          [on, ring] = [to, copy];
        } else if (turn.push > 0) {
          const m = turn.push,
            q = numbers(seed + at, H * m * d), // `[H, m, d]`
            positions = Uint32Array.from({ length: m }, (_, i) => 3 * (queries.length + i));
          for (const own of rows) {
            const part = new Float32Array(heads * m * d);
            own.forEach((row, h) => part.set(q.subarray(row * m * d, (row + 1) * m * d), h * m * d));
            const reader = { layer: 0, all: H, rows: own, first: own === rows[0], last: own === rows.at(-1) };
            ring.push(commands.upload(part, [heads, m, d]), positions, positions, count > 1 ? reader : undefined);
          }
          for (let i = 0; i < m; i++) {
            const token = new Float32Array(H * d);
            for (let h = 0; h < H; h++) token.set(q.subarray((h * m + i) * d, (h * m + i + 1) * d), h * d);
            queries.push(token);
          }
        }
        const held = Math.min(window, queries.length),
          each = 4 * (H * d + 1 + (rotated ? H : 0)),
          { live, allocated } = on.ledger.entry('rings');
        expect(live).toBe(held * each);
        expect(allocated).toBeGreaterThanOrEqual(live);
        expect(allocated).toBeLessThanOrEqual(Math.min(window, Math.max(held, 1.25 * held)) * each);
        expect([...ring.rotations()]).toHaveLength(held * (rotated ? H : 1));
      }
      const k = Math.min(window, queries.length, 1 + (seed % 9));
      if (k > 0) {
        const last = ring.last(commands, k),
          [{ data }] = await scope.read([last.q]);
        expect([...last.positions]).toEqual(Array.from({ length: k }, (_, i) => 3 * (queries.length - k + i)));
        const want = new Float32Array(H * k * d);
        for (const [i, token] of queries.slice(-k).entries())
          for (let h = 0; h < H; h++) want.set(token.subarray(h * d, (h + 1) * d), (h * k + i) * d);
        expect(data).toEqual(want);
      }
      ring.destroy();
      scope.end();
    },
    40,
  ),
);

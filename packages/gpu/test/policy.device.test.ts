import { applyOn, compose } from '@kv/core';
import { cpu } from '@kv/cpu';
import { numbers } from '@kv/gpu-testing';
import { snapkv } from '@kv/scorers-attention';
import { caote } from '@kv/scorers-caote';
import { topK } from '@kv/selectors-top-k';
import fc from 'fast-check';
import { afterAll, expect } from 'vitest';
import { gpuTests } from './device.ts';
import { share } from './differential.ts';
import { snapkvCaote } from './policy.oracle.ts';
import type { Scene } from './policy.oracle.ts';

const gpuTest = await gpuTests();
const count = { rows: 0, kept: 0, ties: 0 };
afterAll(() =>
  console.log(
    `snapkv ∘ caote ∘ topK: ${count.rows} rows, ${count.kept} kept slots, ${count.ties} of them different by a tie in float64`,
  ),
);

const scene = (
  seed: number,
  slots: number,
  channels: number,
  kvHeads: number,
  group: number,
  window: number,
): Scene => {
  const queryHeads = kvHeads * group;
  return {
    queryHeads,
    kvHeads,
    slots,
    channels,
    window,
    attention: numbers(seed, queryHeads * slots, 'weights'),
    values: numbers(seed + 1, kvHeads * slots * channels),
  };
};
const inputs = (s: Scene, budget: number): { attention: object; values: object; budget: number } =>
  ({
    attention: { data: s.attention, shape: [s.queryHeads, s.slots] },
    values: { data: s.values, shape: [s.kvHeads, s.slots, s.channels] },
    budget,
  }) as never;

/** Asserts that slots in only one of two sets have float64 scores within 1e-5 of the row's largest from the border. */
function compare(s: Scene, here: readonly (readonly number[])[], there: readonly (readonly number[])[]): void {
  const scores = snapkvCaote(s);
  for (const [row, kept] of here.entries()) {
    const other = there[row],
      of = scores.subarray(row * s.slots, (row + 1) * s.slots),
      open = Math.max(0, s.slots - s.window);
    const border = Math.min(...other.filter((i) => i < open).map((i) => of[i])),
      most = of.reduce((a, b) => Math.max(a, b), 0);
    const odd = [...kept.filter((i) => !other.includes(i)), ...other.filter((i) => !kept.includes(i))];
    for (const i of odd)
      expect(
        Math.abs(of[i] - border),
        `row ${row}, slot ${i}: score ${of[i]}, border ${border}, largest ${most}`,
      ).toBeLessThanOrEqual(1e-5 * most);
    expect(kept.length).toBe(other.length);
    expect([...kept]).toEqual([...kept].sort((a, b) => a - b));
    count.rows++;
    count.kept += kept.length;
    count.ties += odd.length / 2;
  }
}

gpuTest('snapkv ∘ caote ∘ topK keeps the set of the CPU, with one submit and one read', async (gpu) => {
  const shape = fc.record({
    seed: fc.nat(),
    slots: fc.oneof(fc.constantFrom(1, 2, 63, 64, 65, 257), fc.integer({ min: 1, max: 400 })),
    channels: fc.constantFrom(1, 3, 16, 64),
    kvHeads: fc.constantFrom(1, 2, 3),
    group: fc.constantFrom(1, 2, 4),
    window: fc.constantFrom(1, 4, 32),
    share: fc.double({ min: 0, max: 1, noNaN: true }),
  });
  await fc.assert(
    fc.asyncProperty(shape, async ({ seed, slots, channels, kvHeads, group, window, share }) => {
      const s = scene(seed, slots, channels, kvHeads, group, window),
        policy = compose(snapkv({ window }), caote(), topK());
      const given = inputs(s, Math.min(slots, window) + Math.round(share * Math.max(0, slots - window)));
      const before = { ...gpu.counters };
      const device = await gpu.scope((scope) => applyOn(scope, policy, given));
      expect([gpu.counters.submits - before.submits, gpu.counters.readbacks - before.readbacks]).toEqual([1, 1]);
      compare(s, device.kept!, (await applyOn(cpu, policy, given)).kept!);
    }),
    { numRuns: share(25) },
  );
});

gpuTest('the same at 4,096 slots with 8 query heads', async (gpu) => {
  const s = scene(7, 4096, 32, 2, 4, 32),
    policy = compose(snapkv({ window: 32 }), caote(), topK()),
    given = inputs(s, 1024);
  const start = performance.now();
  const device = await gpu.scope((scope) => applyOn(scope, policy, given));
  console.log(
    `4,096 slots, 8 query heads, 2 KV heads, 32 channels on ${gpu.name}: ${(performance.now() - start).toFixed(0)} ms`,
  );
  compare(s, device.kept!, (await applyOn(cpu, policy, given)).kept!);
});

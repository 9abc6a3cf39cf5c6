import { applyOn, compose, meanByPosition, perModel, pool, sum, zScore } from '@kv/core';
import { cpu } from '@kv/cpu';
import { uniformHash } from '@kv/core/shared';
import type { Inputs, Policy, Tokens } from '@kv/core';
import { numbers } from '@kv/gpu-testing';
import { kernelLaws } from '@kv/laws';
import { fastCaote } from '@kv/scorers-caote';
import { h2o, meanAttention, snapkv, streaming, tova } from '@kv/scorers-attention';
import { knorm } from '@kv/scorers-knorm';
import { random } from '@kv/scorers-random';
import { rarity } from '@kv/scorers-rarity';
import { details, sponsorship, vouchers } from '@kv/scorers-sponsorship';
import { topK } from '@kv/selectors-top-k';
import { afterAll, expect } from 'vitest';
import { gpuTests } from './device.ts';
import { share } from './differential.ts';

const gpuTest = await gpuTests();

for (const kernel of [meanByPosition, uniformHash, vouchers])
  gpuTest(`the kernel ${kernel.id} on the device as its reference`, async (gpu) => {
    for (const law of Object.values(
      kernelLaws(kernel, { backend: gpu, runs: share(20), make: kernel === vouchers ? sponsored : undefined }),
    ))
      await law();
  });
/** Budgets and freshness are one row by position. */
function sponsored({
  rows,
  slots,
  lengths,
  seed,
}: {
  readonly rows: number;
  readonly slots: number;
  readonly lengths?: readonly number[] | undefined;
  readonly seed: number;
}): ReturnType<NonNullable<NonNullable<Parameters<typeof kernelLaws>[1]>['make']>> {
  const known = slots + 3;
  return {
    inputs: {
      budgets: { data: numbers(seed, known, 'weights'), shape: [1, known] },
      fresh: { data: numbers(seed + 1, known, 'weights'), shape: [1, known] },
      positions: {
        data: Uint32Array.from({ length: rows * slots }, (_, i) => (i % Math.max(1, slots)) + 2),
        shape: [rows, slots],
        lengths,
      },
    },
    params: { reach: 6, falloff: 0.8 },
  };
}

const text =
  'The password: K7QX2 was written on the back of the map. user name: ada; secret key = 99182 and nothing else. '.repeat(
    3,
  );
const words = [...text.matchAll(/\w+|[^\w\s]/g)];
const tokens: Tokens = {
  ids: words.map(([w]) => w.length * 31 + w.charCodeAt(0)),
  text,
  offsets: words.map((m) => [m.index, m.index + m[0].length] as const),
};
const SLOTS = tokens.ids.length,
  KV = 2,
  HEADS = 4,
  CHANNELS = 8;
const policies: readonly Policy[] = [
  compose(snapkv({ window: 8, pooling: 'max' }), fastCaote(), topK()),
  compose(h2o(), fastCaote(), topK()),
  compose(tova(), topK()),
  compose(streaming(), topK()),
  compose(meanAttention(), pool(), topK()),
  compose(knorm(), zScore(), topK()),
  compose(knorm(), zScore(), perModel(), topK()),
  compose(knorm(), zScore(), perModel({ kind: 'mean' }), topK()),
  compose(random({ seed: 3 }), topK()),
  compose(rarity(), topK()),
  compose(sum(sponsorship(), random()), topK()),
  compose(sum(sponsorship({ reach: 'value', anchors: details() }), random()), topK()),
];
const count = { kept: 0, ties: 0 };
afterAll(() =>
  console.log(`${policies.length} other policies: ${count.kept} kept slots, ${count.ties} of them different by a tie`),
);

for (const policy of policies)
  gpuTest(`${policy.label} keeps the set of the CPU`, async (gpu) => {
    const inputs = {
      attention: { data: numbers(1, HEADS * SLOTS, 'weights'), shape: [HEADS, SLOTS] },
      tokens,
      budget: Math.round(SLOTS / 3),
      keys: { data: numbers(2, KV * SLOTS * CHANNELS), shape: [KV, SLOTS, CHANNELS] },
      values: { data: numbers(3, KV * SLOTS * CHANNELS), shape: [KV, SLOTS, CHANNELS] },
    } satisfies Inputs;
    const want = await applyOn(cpu, policy, inputs),
      got = await gpu.scope((scope) => applyOn(scope, policy, inputs));
    const {
        data,
        shape: [rows = 1],
      } = want.scores!,
      group = rows / KV;
    for (const [row, kept] of got.kept!.entries()) {
      const other = want.kept![row],
        score = (i: number): number => {
          if (group < 1) return data[i];
          let all = 0;
          for (let r = 0; r < group; r++) all += data[(row * group + r) * SLOTS + i] / group;
          return all;
        };
      const odd = [...kept.filter((i) => !other.includes(i)), ...other.filter((i) => !kept.includes(i))].map(score);
      const most = Math.max(...Array.from({ length: SLOTS }, (_, i) => Math.abs(score(i))));
      expect(kept.length).toBe(other.length);
      if (odd.length > 0) expect(Math.max(...odd) - Math.min(...odd), `row ${row}`).toBeLessThanOrEqual(1e-5 * most);
      count.kept += kept.length;
      count.ties += odd.length / 2;
    }
  });

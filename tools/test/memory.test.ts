import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const script = fileURLToPath(new URL('../../bench/memory.mjs', import.meta.url));
/** Policies that take seconds or minutes at this length are left to `.ci/full.d/memory`, which runs all of them. */
const quick = [
  'streaming',
  'random',
  'knorm',
  'h2o',
  'tova',
  'meanAttention',
  'snapkv',
  'pyramidkv',
  'pyramidal',
  'chunkkv',
  'adakv',
  'criticalkv',
  'keydiff',
  'lagkv',
  'cur',
  'expectedAttention',
  'leverage',
  'dynamickv',
  'h2oJoint',
  'rarity',
  'taFast',
  'fullTa',
];

test('an event of 131,072 slots stays below 300 MB for the whole process: no n x n matrix anywhere', () => {
  const said = execFileSync(
    process.execPath,
    [script, ...(process.env['KV_FULL'] === '1' ? [] : ['--only', quick.join()])],
    { encoding: 'utf8', env: { ...process.env, NODE_OPTIONS: '' } },
  );
  const { slots, beforeMiB, peakMiB, kept } = JSON.parse(said) as {
    slots: number;
    beforeMiB: number;
    peakMiB: number;
    kept: Record<string, [kept: number, ms: number, peakMiB: number]>;
  };
  expect(slots).toBe(131_072);
  expect(Object.keys(kept).length).toBeGreaterThanOrEqual(quick.length);
  // whole chunks may leave less than one over; joint eviction evicts 32
  for (const [label, [count]] of Object.entries(kept)) expect([1024, 1022, 131_040], label).toContain(count);
  expect((peakMiB * 1024 * 1024) / 1e6, `${beforeMiB} MiB before, after each: ${said}`).toBeLessThan(300);
});

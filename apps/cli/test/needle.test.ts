import { settleOwn } from '@kv/core/engine';
import { NEEDLE } from '@kv/evaluation';
import type { NeedleRow } from '@kv/evaluation';
import { expect, it } from 'vitest';
import { needleText } from '../src/commands/needle.ts';

const accuracy = { hits: 2, n: 4, share: 0.5, interval: { low: 0.15, high: 0.85 } };
const row = (policy: string, more: Partial<NeedleRow>): NeedleRow => ({
  arm: { policy: 1, cache: 'f32', mode: 'aware', budget: '50%' },
  policy,
  accuracy,
  byDepth: [accuracy],
  retained: 0.5,
  somewhere: 0.75,
  memory: { mean: 2048, peak: 3000 },
  speed: 1.25,
  ...more,
});

it('the needle table has a line for every arm, with its interval, bytes and speed, and names a policy once', () => {
  const settings = { ...settleOwn('needle', NEEDLE, {}), model: 'm', weights: 'w', engine: 'e', code: [] },
    rows = [
      row('full', { arm: { policy: 0, cache: 'f32', mode: 'aware' }, speed: 1 }),
      row('streaming', {}),
      row('streaming', { memory: undefined, speed: undefined }),
      row('streaming', { arm: { policy: 1, cache: 'f32', mode: 'agnostic', budget: 24 } }),
    ];
  const lines = needleText({ settings, rows, arms: [], results: [] }, 100)
    .replace(/\u001b\[\d+m/g, '')
    .split('\n')
    .filter((line) => /\d+-\d+ % +\d/.test(line));
  expect(lines).toHaveLength(4);
  expect(lines[0]).toMatch(/^full +all +50 % +15-85 % +50 % +75 % +2\.0 KiB +2\.9 KiB +1\.00x$/);
  expect(lines[1]).toMatch(/^streaming +50% +50 % .* 1\.25x$/);
  expect(lines[2]).toMatch(/^ +50% +50 % .* - +- +-$/);
  expect(lines[3]).toMatch(/^streaming +24 /);
});

it.each([80, 92])(
  'fits a terminal of %i characters: a long policy stands in several lines, and what cannot fit is told below',
  (most) => {
    const long = 'snapkvCaote(window=16,kernel=17,pooling=max)',
      settings = {
        ...settleOwn('needle', NEEDLE, {}),
        modes: ['aware'] as const,
        model: 'm',
        weights: 'w',
        engine: 'e',
        code: [],
      },
      rows = [
        row('full', { arm: { policy: 0, cache: 'f32', mode: 'aware' } }),
        row(long, {}),
        row(long, {
          arm: { policy: 1, cache: 'f32', mode: 'aware', budget: 8, forced: 16 },
          memory: undefined,
          speed: undefined,
        }),
      ];
    const lines = needleText({ settings, rows, arms: [], results: [] }, most)
      .replace(/\u001b\[\d+m/g, '')
      .split('\n');
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(most);
    expect(lines.join('').replace(/ /g, '')).toContain('snapkvCaote');
    expect(lines.find((line) => line.includes(' 8 '))).toMatch(/^ +8 +- +no room +-/);
    expect(lines.join(' ')).toContain(`no room: ${long} forces 16 slots in every head, more than 8; not run.`);
  },
);

import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { writeTinyModel } from '@kv/model-testing';
import { loadModel } from '@kv/models';
import type { Model } from '@kv/models';
import { beforeAll, describe, expect, it } from 'vitest';
import { here, needleColumns, needleReport, needleTable, runExperiment } from '../src/index.ts';
import type { NeedleTableOptions, NeedleTable } from '../src/index.ts';
import { folder } from './folder.ts';

let model: Model;
beforeAll(async () => {
  model = await loadModel(writeTinyModel(join(folder(), 'tiny')));
});
const small: Partial<NeedleTableOptions> = {
  policies: ['streaming'],
  budgets: ['50%'],
  depths: [0.5],
  prompts: 3,
  tokens: 220,
};

describe('a needle table', () => {
  it('is a row a arm, the full cache first, from a loaded model alone', async () => {
    const table = await runExperiment(await needleTable(model, { ...small, modes: ['aware'] }), {
      start: here({ model }),
    });
    expect(table?.rows.map(({ policy, arm, accuracy: { n } }) => [policy, arm.budget, n])).toEqual([
      ['full', undefined, 3],
      ['streaming', '50%', 3],
    ]);
    expect(table?.settings).toMatchObject({ weights: model.fingerprint, engine: model.engine, form: 'both' });
  });
  it('goes on with what is in its folder, and comes to the same', async () => {
    const kept = folder(),
      stop = new AbortController(),
      experiment = await needleTable(model, small);
    const run = (signal = new AbortController().signal, seen: string[] = []): Promise<NeedleTable | undefined> =>
      runExperiment(experiment, {
        start: here({ model }),
        folder: kept,
        signal,
        onStart: ({ total, done }) => seen.push(`${done}/${total}`),
        onResult: ({ id }) => {
          seen.push(id);
          if (seen.length === 3) stop.abort();
        },
      });
    const first: string[] = [],
      second: string[] = [];
    expect(await run(stop.signal, first)).toBeUndefined();
    const table = await run(undefined, second);
    expect([first[0], second[0]]).toEqual(['0/3', '2/3']);
    expect(new Set([...first, ...second]).size).toBe(3 + 2);
    const [file] = readdirSync(kept);
    expect(file).toMatch(/^needle-[0-9a-f]{12}\.jsonl$/);
    expect(readFileSync(join(kept, file), 'utf8').trim().split('\n')).toHaveLength(1 + 3);
    expect(table?.rows).toHaveLength(4);
    expect(await run()).toEqual(table);
  });
  it('does not take results with other files next to the model for its own', async () => {
    const filesWith = async (text: string | undefined): Promise<readonly string[]> => {
      const sidecar: Model['sidecar'] = async () => (text === undefined ? undefined : new TextEncoder().encode(text)),
        { settings } = await needleTable({ ...model, sidecar }, { ...small, policies: ['qfilter'] });
      return (settings as NeedleTable['settings']).code;
    };
    const [one, other, none] = [await filesWith('one'), await filesWith('other'), await filesWith(undefined)];
    expect(one).toEqual([expect.stringMatching(/^\S+\.safetensors [0-9a-f]{16}$/)]);
    expect([none, await filesWith('one')]).toEqual([[], one]);
    expect(other).not.toEqual(one);
  });
  it('refuses before it runs what cannot be run', async () => {
    await expect(needleTable(model, { ...small, tokens: 1000 })).rejects.toThrow(/^tokens: expected at most 244, /);
    await expect(needleTable(model, { ...small, policies: ['snapkv(window=64)'], budgets: [8] })).rejects.toThrow(
      /^budgets: 8 slots are fewer than '.*' forces in every head: expected a budget of at least 64, as snapkv\(window=64,kernel=5\) forces them$/,
    );
    await expect(needleTable(model, { ...small, policies: ['snapkw'] })).rejects.toThrow(/snapkv/);
  });
  it('leaves out a cell that cannot fit, and says so in the table and the report', async () => {
    const asked = { ...small, policies: ['streaming', 'snapkv(window=64)'], budgets: [8, 80] },
      table = await runExperiment(await needleTable(model, asked), { start: here({ model }) }),
      [, cut] = table?.rows.filter(({ arm }) => arm.budget === 8) ?? [];
    expect(cut).toMatchObject({ policy: 'snapkv(window=64)', arm: { forced: 64 }, accuracy: { n: 0 } });
    expect(
      table?.rows.filter(({ arm: { forced } }) => forced === undefined).every(({ accuracy }) => accuracy.n > 0),
    ).toBe(true);
    expect(cut && needleColumns.map(([, cell]) => cell(cut))).toEqual([
      'snapkv(window=64)',
      '8',
      '-',
      'no room',
      '-',
      '-',
      '-',
      '-',
      '-',
    ]);
    expect(table && needleReport(table)).toContain('title="64 slots are forced in every head">no room</td>');
  });
  it('passes on what the first failing job throws', async () => {
    const broken = { ...model, memory: () => expect.fail('no memory') };
    await expect(runExperiment(await needleTable(model, small), { start: here({ model: broken }) })).rejects.toThrow(
      'no memory',
    );
  });
});

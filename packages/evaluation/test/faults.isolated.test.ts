import { join } from 'node:path';
import { writeTinyModel } from '@kv/model-testing';
import { loadModel } from '@kv/models';
import { vi } from 'vitest';
import { here, needleReport, needleTable } from '../src/index.ts';
import { folder } from './folder.ts';
import { onFaultyDisk } from './on-faulty-disk.ts';
import type { Command } from './on-faulty-disk.ts';

vi.mock('node:fs', async (original) => (await import('@kv/model-testing/faulty-disk')).faulty(await original()));

const model = await loadModel(writeTinyModel(join(folder(), 'tiny')));
onFaultyDisk('needle', async () => {
  const experiment = await needleTable(model, {
    policies: ['streaming'],
    budgets: ['50%'],
    depths: [0.5],
    prompts: 1,
    tokens: 160,
    modes: ['aware'],
  });
  return {
    experiment: experiment as unknown as Command['experiment'],
    start: here({ model }),
    report: needleReport as Command['report'],
  };
});

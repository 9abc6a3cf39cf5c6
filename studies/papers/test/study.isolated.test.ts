import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { here, runExperiment } from '@kv/evaluation';
import { writeTinyModel } from '@kv/model-testing';
import { loadModel } from '@kv/models';
import { describe, expect, it, vi } from 'vitest';
import { onFaultyDisk } from '../../../packages/evaluation/test/on-faulty-disk.ts';
import type { Command } from '../../../packages/evaluation/test/on-faulty-disk.ts';
import { studyMarkdown } from '../src/markdown.ts';
import { planOf } from '../src/plans.ts';
import { paperStudy } from '../src/study.ts';
import type { Study } from '../src/study.ts';
import { paperJobs } from '../src/work.ts';
import type { PaperWork } from '../src/work.ts';

vi.mock('node:fs', async (original) => (await import('@kv/model-testing/faulty-disk')).faulty(await original()));

const model = await loadModel(writeTinyModel(join(mkdtempSync(join(tmpdir(), 'kv-papers-')), 'tiny'))),
  plan = {
    ...planOf('1'),
    tasks: { ...planOf('1').tasks, 'prose-prefill': { kind: 'prompt', tokens: 96 } },
  } as const;

describe('a study of the papers', () => {
  it('measures the rows that are asked for, and says that another seed is development', async () => {
    const study = await runExperiment(
      await paperStudy(model, plan, { rows: ['psaw-etf', 'cis-cosine'], n: 3, seed: 1 }),
      {
        start: here({ model }, paperJobs),
      },
    );
    expect(study).toMatchObject({
      label: "development: not the plan's prompts",
      outcomes: [{ row: { id: 'psaw-etf' }, n: 3, measured: [{ n: 3 }] }],
      excused: [{ id: 'cis-cosine' }],
    });
    expect(study?.left).toHaveLength(plan.rows.length - 2);
  });
  it('does not take results with other files next to the model for its own', async () => {
    const { settings } = await paperStudy({ ...model, sidecar: async () => Uint8Array.of(1) }, planOf('3'), {});
    expect((settings as { readonly code: readonly string[] }).code.length).toBeGreaterThan(0);
  });
  it('has no row that the plan has not', () =>
    expect(paperStudy(model, planOf('1'), { rows: ['ta-credential'] })).rejects.toThrow(
      "row: expected a row of the plan (did you mean ta-credentials?), got 'ta-credential'",
    ));
});

onFaultyDisk<PaperWork>('papers', async () => ({
  experiment: (await paperStudy(model, plan, {
    rows: ['psaw-etf'],
    n: 3,
    seed: 1,
  })) as unknown as Command<PaperWork>['experiment'],
  start: here({ model }, paperJobs),
  report: (study) => studyMarkdown(study as Study, 'study papers'),
}));

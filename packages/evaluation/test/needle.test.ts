import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { onlyAttention } from '@kv/checkpoints';
import { SHAPE, writeTinyModel } from '@kv/model-testing';
import { compile } from '@kv/core/engine';
import { policySizes } from '@kv/engine';
import { loadModel, Sequence } from '@kv/models';
import { parsePolicy } from '@kv/policies';
import { answerRules, heldOutBook, sentencesOf, wilson } from '@kv/tasks';
import { beforeAll, describe, expect, it } from 'vitest';
import { runPool } from '../src/jobs/run-pool.ts';
import type { Runner } from '../src/jobs/run-pool.ts';
import { digest, openStore } from '../src/jobs/store.ts';
import { needleReport } from '../src/needle/report/report.ts';
import type { NeedleResult } from '../src/needle/results.ts';
import { promptOf, runJob } from '../src/needle/run-job.ts';
import type { NeedleBench } from '../src/needle/run-job.ts';
import { armsOf, budgetLabel, jobsOf } from '../src/needle/settings.ts';
import type { RetentionBounds, NeedleJob, NeedleSettings } from '../src/needle/settings.ts';
import { needleConclusion } from '../src/needle/conclusion.ts';
import { summarise } from '../src/needle/summary.ts';
import type { NeedleRow } from '../src/needle/summary.ts';
import { greedy, keptTokens, retainedShare } from '../src/sequences.ts';
import { folder } from './folder.ts';

const settings: NeedleSettings = {
  model: 'tiny',
  weights: 'x',
  engine: 'wasm',
  policies: ['full', 'streaming', 'random'],
  code: [],
  budgets: ['50%', 24],
  cache: ['f32'],
  depths: [0.2, 0.8],
  prompts: 2,
  tokens: 220,
  seed: 0,
  modes: ['aware', 'agnostic'],
  form: 'both',
  asking: 'cued',
  distractors: 0,
  block: undefined,
};
const keeps = (evicts: boolean): RetentionBounds => ({ evicts, least: () => 0, hooks: () => [], steps: [] });
const arms = armsOf(settings, [keeps(false), keeps(true), keeps(true)], {
    ...SHAPE,
    mixers: onlyAttention(SHAPE.layers, { kvHeads: SHAPE.kvHeads, headDim: 8 }),
  }),
  jobs = jobsOf(settings);
const never = new AbortController().signal;
let bench: NeedleBench, results: NeedleResult[];

const here = (bench: NeedleBench): Runner<NeedleJob, NeedleResult> => ({
  run: (job) => runJob(bench, job),
  stop: async () => {},
});

beforeAll(async () => {
  bench = {
    model: await loadModel(writeTinyModel(join(folder(), 'tiny'))),
    settings,
    sentences: sentencesOf(await heldOutBook()),
  };
  results = [];
  await runPool({ jobs, size: 2, start: () => here(bench), signal: never, onResult: (result) => results.push(result) });
}, 120_000);

describe('an experiment', () => {
  it('asks every prompt in every arm, full once a mode', () => {
    expect(arms).toHaveLength(2 * (1 + 2 * 2));
    expect(results).toHaveLength(4);
    for (const { outcomes } of results) expect(outcomes.map(({ arm }) => arm)).toEqual(arms.map((_, i) => i));
  });
  it('has a job for each prompt and no other: the first already answers in every arm, and says what each costs', async () => {
    expect(jobs.map(({ depth, trial }) => `${depth}/${trial}`).sort()).toEqual(['0.2/0', '0.2/1', '0.8/0', '0.8/1']);
    const { outcomes } = await runJob(bench, jobs[0]);
    expect(outcomes.map(({ arm }) => arm)).toEqual(arms.map((_, i) => i));
    for (const { tokens, mean, peak } of outcomes) {
      expect(tokens).toBeGreaterThan(0);
      expect(mean).toBeGreaterThan(0);
      expect(peak).toBeGreaterThanOrEqual(mean);
    }
  });
  it('keeps the whole value under full, and under streaming where it is recent, not where it is early', () => {
    for (const { outcomes, depth } of results)
      for (const { arm, retained } of outcomes) {
        const { policy, budget } = arms[arm];
        if (policy === 0) expect(retained).toBe(1);
        if (policy === 1 && depth === 0.2) expect(retained, `streaming ${budget} at ${depth}`).toBe(0);
        if (policy === 1 && depth === 0.8 && budget === '50%')
          expect(retained, `streaming ${budget} at ${depth}`).toBe(1);
      }
  });
  it('prices each arm as much as a run of it by itself holds, from the prefill that all share', async () => {
    const policies = [
        'full',
        'streaming',
        'h2o',
        'snapkv(window=16)',
        'tova',
        'pyramidal(window=16)',
        'dynamickv',
        'compactor',
      ],
      priced = { ...settings, policies, budgets: ['25%'] as const },
      read = policies.map((text) => parsePolicy(text)),
      all = armsOf(priced, read.map(compile), bench.model.config),
      job = jobs.find(({ id }) => id === 'prompt/0.8/1')!,
      { outcomes } = await runJob({ ...bench, settings: priced }, job);
    expect(outcomes).toHaveLength(all.length);
    const prompt = promptOf(bench.model, priced, bench.sentences, job);
    for (const { arm, mean, peak } of outcomes) {
      const { policy, budget, mode } = all[arm],
        alone = new Sequence(bench.model);
      await alone.prefill(mode === 'aware' ? [...prompt.documentIds, ...prompt.questionIds] : prompt.documentIds, {
        policy: read[policy],
        budget,
        forget: true,
      });
      if (mode === 'agnostic') await alone.append(prompt.questionIds);
      await greedy(alone, answerRules.cued);
      const { meanDecode, live, peak: most } = alone.memory.ledger.bytes();
      expect(mean / (meanDecode || live), `${policies[policy]}, ${mode}, mean`).toBeCloseTo(1, 2);
      expect(peak / most, `${policies[policy]}, ${mode}, peak`).toBeCloseTo(1, 2);
      alone.destroy();
    }
  });
  it('has every policy at every budget in every form: bytes hold more slots in a coarser form, or none', async () => {
    const budgets = ['64B', '5KiB', '25% of f16'] as const,
      forms = {
        ...settings,
        policies: ['full', 'streaming'],
        cache: ['f16', 'q8'],
        budgets,
        modes: ['aware'],
      } as const,
      all = armsOf(forms, [keeps(false), { ...keeps(true), least: (_, slots) => slots }], bench.model.config),
      { outcomes } = await runJob({ ...bench, settings: forms }, jobs[1]);
    expect(all.map((arm) => [arm.policy, budgetLabel(arm), arm.forced])).toEqual([
      [0, 'all in f16', undefined],
      [0, 'all in q8', undefined],
      ...['f16', 'q8'].flatMap((form) => [
        [1, `64B in ${form}`, 1], // no room for one slot
        [1, `5KiB in ${form}`, undefined],
        [1, `25% of f16 in ${form}`, undefined],
      ]),
    ]);
    expect(outcomes.map(({ arm }) => arm).sort((a, b) => a - b)).toEqual([0, 1, 3, 4, 6, 7]);
    const mean = (i: number): number => outcomes.find(({ arm }) => arm === i)!.mean;
    expect(mean(0)).toBeGreaterThan(1.2 * mean(1));
    // at equal bytes, but for a slot that is cut off and the tokens of the answer
    for (const [f16, q8] of [
      [3, 6],
      [4, 7],
    ])
      expect(Math.abs(mean(f16) - mean(q8))).toBeLessThan(10 * 4 * 36);
    const html = needleReport({
      ...{ settings: forms, arms: all, results: [] },
      rows: summarise(forms, all, [{ ...results[0], outcomes }]),
    });
    for (const arm of all) expect(html).toContain(`<th scope="row">${budgetLabel(arm)}</th>`);
  });
  it('counts the slots that bytes hold under the policy: more where it demotes some', async () => {
    const coarse = 'snapkv(window=16,kernel=5) | topK | levels(f16=1)',
      policies = ['full', coarse, 'snapkv(window=16,kernel=5)'],
      compiled = policies.map((text) => compile(parsePolicy(text))),
      // 16 slots of the window are forced: they fit where each takes less than in f32
      sizes = policySizes(bench.model.config, 'f32', compiled[1]),
      budgets = [`${16 * sizes.bytesPerSlot}B`] as const,
      some = { ...settings, policies, budgets, modes: ['aware'] } as const,
      all = armsOf(some, compiled, bench.model.config),
      { outcomes } = await runJob({ ...bench, settings: some }, jobs[1]);
    expect(all.map(({ forced }) => forced)).toEqual([undefined, undefined, 16]);
    expect(outcomes.map(({ arm }) => arm)).toEqual([0, 1]);
  });
  it('draws again for every trial', () => {
    const [a, b] = [0, 1].map((trial) => results.find((result) => result.trial === trial && result.depth === 0.2)!);
    expect(a.value).not.toBe(b.value);
    expect(a.value).toMatch(/^[A-Z0-9]{8}$/);
    expect(b.value).toMatch(/^\d{7}$/);
  });
  it('gives the same prompts and answers again', async () => {
    const job = jobs.find(({ id }) => id === 'prompt/0.8/1')!;
    const answers = (result: NeedleResult): unknown =>
      result.outcomes.map(({ answer, hit, retained }) => [answer, hit, retained]);
    expect(answers(await runJob(bench, job))).toEqual(answers(results.find(({ id }) => id === job.id)!));
  });
  it('lets a free answer go on until 32 tokens or the end of the turn, a cued one until 12 or its stop', async () => {
    const job = jobs.find(({ id }) => id === 'prompt/0.8/1')!,
      free = { ...bench, settings: { ...settings, asking: 'free' as const } };
    const tokens = async (of: NeedleBench): Promise<readonly number[]> =>
      (await runJob(of, job)).outcomes.map((outcome) => outcome.tokens);
    expect(await tokens(free)).toEqual(arms.map(() => 32));
    expect(Math.max(...(await tokens(bench)))).toBeLessThanOrEqual(12);
    const { model } = bench,
      every = Array.from({ length: model.config.vocab }, (_, id) => id);
    expect(await tokens({ ...free, model: { ...model, config: { ...model.config, eosIds: every } } })).toEqual(
      arms.map(() => 0),
    );
  });
  it('counts a row as holding the value only if it holds all of it, and its tokens one by one', () => {
    const kept = [
      [
        [1, 2, 3],
        [2, 3],
      ],
      [[0, 1, 2, 3, 4], []],
    ];
    expect(retainedShare(kept, [1, 2])).toBe(0.5);
    expect(keptTokens(kept, [1, 2])).toBe(5 / 8);
  });
});

describe('the store', () => {
  const opened = (folder: string, of = settings, fresh = false): ReturnType<typeof openStore<NeedleResult>> =>
    openStore({ folder, name: 'needle', settings: of, fresh });
  it('continues after an interruption: what is on disk is not run again, a torn line is', async () => {
    const cwd = folder(),
      stop = new AbortController();
    const store = opened(cwd);
    await runPool({
      jobs,
      size: 2,
      start: () => here(bench),
      signal: stop.signal,
      onResult: (result) => {
        store.add(result);
        if (readFileSync(store.path, 'utf8').split('\n').length > 4) stop.abort();
      },
    });
    const before = opened(cwd).found.length;
    expect(before).toBeGreaterThanOrEqual(3);
    expect(before).toBeLessThan(jobs.length);
    appendFileSync(store.path, '{"id":"prompt/0.8/1","dep');
    const again = opened(cwd),
      ran: string[] = [];
    expect(again.found).toHaveLength(before);
    const left = jobs.filter(({ id }) => !again.found.some((result) => result.id === id));
    await runPool({
      jobs: left,
      size: 1,
      start: () => here(bench),
      signal: never,
      onResult: (result) => {
        ran.push(result.id);
        again.add(result);
      },
    });
    expect(ran).toHaveLength(jobs.length - before);
    expect(
      opened(cwd)
        .found.map(({ id }) => id)
        .sort(),
    ).toEqual(jobs.map(({ id }) => id).sort());
  });
  it('keeps other settings and other weights apart, and forgets when asked to', () => {
    expect(
      new Set(
        [
          settings,
          { ...settings, seed: 1 },
          { ...settings, weights: 'y' },
          { ...settings, engine: 'other' },
          { ...settings, tokens: 221 },
        ].map(digest),
      ).size,
    ).toBe(5);
    const cwd = folder();
    opened(cwd).add(results[0]);
    expect(opened(cwd).found).toHaveLength(1);
    expect(opened(cwd, settings, true).found).toHaveLength(0);
  });
  it('starts over where nothing but a torn first line was written', () => {
    const cwd = folder(),
      { path } = opened(cwd);
    writeFileSync(path, '{"format":');
    opened(cwd).add(results[0]);
    expect(opened(cwd).found).toHaveLength(1);
  });
});

describe('a pool', () => {
  const failing = (at: number): (() => Runner<NeedleJob, NeedleResult>) => {
    let n = 0;
    return () => ({
      run: async (job: NeedleJob) => {
        if (++n === at) throw new Error(`no ${job.id}`);
        return { id: job.id, depth: 0, trial: 0, value: '', outcomes: [] };
      },
      stop: async () => {},
    });
  };
  it('ends with the first error', async () => {
    const seen: NeedleResult[] = [];
    await expect(
      runPool({ jobs, size: 1, start: failing(3), signal: never, onResult: (result) => seen.push(result) }),
    ).rejects.toThrow(`no ${jobs[2].id}`);
    expect(seen).toHaveLength(2);
  });
  it('stops every runner when it is aborted, without waiting for their jobs', async () => {
    const stop = new AbortController();
    let stopped = 0;
    const done = runPool({
      jobs,
      size: 2,
      start: () => ({ run: () => new Promise(() => {}), stop: async () => stopped++ }),
      signal: stop.signal,
      onResult: () => {},
    });
    stop.abort();
    await done;
    expect(stopped).toBe(2);
  });
});

describe('what is printed', () => {
  /** Right answers where the value was kept: the tiny model itself says nothing. */
  const told = (): NeedleResult[] =>
    results.map((result) => ({
      ...result,
      outcomes: result.outcomes.map((outcome) => ({ ...outcome, hit: outcome.retained === 1 })),
    }));

  const rows = (): ReturnType<typeof summarise> => summarise(settings, arms, [...told(), ...told().slice(0, 3)]);
  it('counts every prompt once, by depth too', () => {
    const streaming = rows().find(({ arm }) => arm.policy === 1 && arm.budget === '50%' && arm.mode === 'aware')!;
    expect(streaming.accuracy).toMatchObject({ hits: 2, n: 4, share: 0.5 });
    expect(streaming.byDepth.map(({ hits, n }) => [hits, n])).toEqual([
      [0, 2],
      [2, 2],
    ]);
    expect(streaming).toMatchObject({ retained: 0.5, somewhere: 0.5 });
  });
  it('the report is one file with every arm and the text itself', () => {
    const html = needleReport({ settings, arms, rows: rows(), results: told() });
    expect(html).not.toMatch(/(?:src|href)\s*=|@import|url\(/);
    expect(html.match(/<table class="panel"/g)).toHaveLength(2 * 3);
    expect(html.match(/<td title="\d of \d right/g)).toHaveLength(arms.length * settings.depths.length);
    expect(html.split('id="numbers"')[1].match(/<tr><th scope="row">/g)).toHaveLength(arms.length);
    const { example, value } = results.find((result) => result.example)!;
    const shown = [...html.matchAll(/<span data-t="\d+"(?: class="value")?>(.*?)<\/span>/g)]
      .map(([, text]) => text)
      .join('')
      .replace(/<br>/g, '\n')
      .replace(/&#39;/g, "'")
      .replace(/&quot;/g, '"')
      .replace(/&amp;/g, '&');
    expect(shown).toBe(example!.text);
    expect(
      [...html.matchAll(/class="value">(.*?)</g)]
        .map(([, text]) => text)
        .join('')
        .trim(),
    ).toBe(value);
    const data = JSON.parse(/<script type="application\/json" id="data">(.*?)<\/script>/s.exec(html)![1]) as {
      rows: number;
      kept: string[];
    };
    expect(data.rows).toBe(SHAPE.layers * SHAPE.kvHeads);
    const counts = data.kept.map((text) => [...Buffer.from(text, 'base64')]);
    expect(counts[0]).toEqual(Array.from({ length: settings.tokens }, () => data.rows));
    expect(counts[1].reduce((a, b) => a + b, 0)).toBe(data.rows * (settings.tokens / 2));
  });
  it('the report says when an answer is right, as it was asked', () => {
    const said = (asking: 'cued' | 'free') =>
      needleReport({ settings: { ...settings, asking }, arms, rows: rows(), results: told() });
    expect(said('cued')).toContain('Answers are greedy and right only if they are the value exactly.');
    expect(said('free')).toContain('right if the answer names the value. Answers are greedy. Speed');
  });
  it('the report cannot be broken by the name of a policy', () => {
    const html = needleReport({
      settings: { ...settings, policies: ['full', '</script><b>&"', 'random'] },
      arms,
      rows: rows(),
      results: told(),
    });
    expect(html).not.toContain('</script><b>');
  });
});

describe('a conclusion', () => {
  const row = (policy: string, budget: string | undefined, hits: number, n: number, mean: number): NeedleRow => ({
    ...{ policy, retained: 1, somewhere: 1, speed: 1, memory: { mean, peak: mean }, byDepth: [] },
    arm: { mode: 'aware', policy: 0, ...(budget !== undefined && { budget }) } as NeedleRow['arm'],
    accuracy: { hits, n, share: hits / n, interval: wilson(hits, n) },
  });
  const full = row('full', undefined, 190, 200, 1000);
  it('names the least memory whose answers may be as many, and tells what this number of prompts is', () => {
    const rows = [row('a', '50%', 190, 200, 500), row('b', '10%', 186, 200, 100), row('c', '5%', 120, 200, 50), full];
    expect(needleConclusion(rows, 'aware')).toBe(
      "Least memory not shown to be worse than the full cache's 95 %: b with 10% kept, 93 % right (89-96 %), 100 B of 1000 B on average. A verdict of 200 prompts.",
    );
  });
  it('says that none does, and which is nearest', () =>
    expect(needleConclusion([full, row('a', '50%', 9, 20, 500), row('b', '10%', 3, 20, 100)], 'aware')).toBe(
      'Nothing here answers as the full cache does; nearest: a with 50% kept, 45 % right (26-66 %), 500 B of 1000 B on average. A screening of 20 prompts.',
    ));
  it('says that nothing but the full cache answers', () =>
    expect(needleConclusion([full, row('a', '50%', 0, 20, 500)], 'aware')).toBe(
      'Nothing here answers but the full cache. A screening of 20 prompts.',
    ));
  it('is none where there is nothing to compare', () => {
    expect(needleConclusion([full], 'aware')).toBeUndefined();
    expect(needleConclusion([full, row('a', '50%', 9, 20, 500)], 'agnostic')).toBeUndefined();
    expect(needleConclusion([row('full', undefined, 0, 20, 9), row('a', '50%', 0, 20, 5)], 'aware')).toBeUndefined();
  });
});

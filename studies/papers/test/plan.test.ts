import { readFileSync } from 'node:fs';
import { compile } from '@kv/core/engine';
import { digest } from '@kv/evaluation/shared';
import { random } from '@kv/tasks';
import { describe, expect, it } from 'vitest';
import { jobsOf, known, policyOf, specOf } from '../src/jobs.ts';
import type { PaperResult } from '../src/jobs.ts';
import { rowText } from '../src/markdown.ts';
import { ENOUGH, powerOf, powerOfRow } from '../src/power.ts';
import { promptFor } from '../src/prompts.ts';
import { planFor, planNames, planOf, planText } from '../src/plans.ts';
import type { PlanName } from '../src/plans.ts';
import { armKey, isPlanned, metrics, paperNames } from '../src/types.ts';
import type { Metric, Plan, Task } from '../src/types.ts';

const first = planOf('1');
const planned = first.rows.filter(isPlanned),
  { tasks } = first,
  plans: readonly (readonly [PlanName, Plan])[] = planNames.map((name) => [name, planOf(name)]);
const column = (i: number): readonly string[] =>
  readFileSync(new URL('./data/papers.md', import.meta.url), 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .map((line) => line.split('|')[i].trim())
    .slice(1)
    .filter((cell) => !/^-+$/.test(cell));
const study = (name: string): string => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');
const GIVES: Readonly<Record<Task['kind'], readonly Metric[]>> = {
  needle: ['hit', 'retained', 'keptTokens'],
  association: ['hit', 'retained', 'keptTokens'],
  credential: ['hit', 'retained', 'keptTokens'],
  generated: ['hit', 'retained', 'keptTokens'],
  continuation: ['nll', 'retrievals', 'keyBytes', 'hiddenMass', 'overlap'],
  prompt: ['nll'],
  ranks: ['spearman', 'spearmanLeast'],
  costs: ['eventShare', 'stepTime', 'turnTime', 'peakBytes'],
};

describe('the first plan', () => {
  it('has every row of papers.md, in its order, planned or excused', () =>
    expect(first.rows.map(({ claim }) => claim)).toEqual(column(1)));
  it('gives the promise in the words of papers.md', () =>
    expect(first.rows.map(({ promise }) => promise)).toEqual(column(3)));
});

describe.each(plans)('plan %s', (name, { rows, tasks: of }) => {
  it('asks claims of papers.md, with their promises; the third all of them', () => {
    const claims = column(1),
      promises = column(3);
    for (const { id, claim, promise, table } of rows)
      if (table === undefined) expect(promise, id).toBe(promises[claims.indexOf(claim)]);
      else expect(claims, id).not.toContain(claim);
    if (name === '3') expect([...new Set(rows.map(({ claim }) => claim))]).toEqual(claims);
  });
  it('is valid: known papers, unique ids, an excuse or contrasts with room for a verdict', () => {
    expect(new Set(rows.map(({ id }) => id)).size).toBe(rows.length);
    for (const row of rows) {
      expect(paperNames).toContain(row.paper);
      if (!isPlanned(row)) {
        expect(row.excuse.length, row.id).toBeGreaterThan(20);
        continue;
      }
      expect(row.contrasts.length, row.id).toBeGreaterThan(0);
      expect(Math.min(row.n.embedded, row.n.real), row.id).toBeGreaterThanOrEqual(2);
      for (const { task, metric, threshold } of row.contrasts) {
        expect(of, row.id).toHaveProperty([task]);
        expect(GIVES[of[task].kind], `${row.id}: ${task}`).toContain(metric);
        expect(metrics[metric].share ? Math.abs(threshold) < 1 : Number.isFinite(threshold), row.id).toBe(true);
      }
    }
  });
  it('names policies that the command line composes, with a budget where they evict', async () => {
    const arms = new Map(
      rows
        .filter(isPlanned)
        .flatMap(({ contrasts }) =>
          contrasts.flatMap(({ a, b, task }) => (b ? [a, b] : [a]).map((arm) => [armKey(arm), { arm, task }] as const)),
        ),
    );
    for (const { arm, task } of arms.values()) {
      const { evicts } = compile(await policyOf(arm.policy));
      if (evicts && of[task].kind !== 'ranks') expect(arm.budget, arm.policy).toBeDefined();
    }
  });
  it('says what it asks without a difference below 0 or of 0', () => {
    for (const row of rows) expect(rowText(row), row.id).not.toMatch(/ than -| by (more|less) than 0( |$)/m);
  });
  it('compares arms of one budget, unless one of them is the full cache', () => {
    for (const { id, contrasts } of rows.filter(isPlanned))
      for (const { a, b } of contrasts) if (b && b.policy !== 'full') expect(a.budget, id).toEqual(b.budget);
  });
  it('finds a difference as large as the paper printed with a chance of 80 %, where it printed shares', () => {
    for (const row of rows.filter(isPlanned))
      for (const kind of ['embedded', 'real'] as const)
        expect(powerOfRow(row, kind) ?? 1, `${row.id}, ${kind}`).toBeGreaterThanOrEqual(ENOUGH);
  });
  it('is what it was when its results were made: its digest stands in it and in them', () => {
    const results = {
      1: ['results-embedded.json'],
      2: ['results-embedded-2.json'],
      3: ['results-SmolLM2-135M-Instruct.Q4_1.json'],
      4: ['results-embedded-4.json'],
      5: ['results-embedded-5.json', 'results-SmolLM2-135M-Instruct.Q4_1-5.json'],
      6: ['results-SmolLM2-135M-Instruct.Q4_1-6.json'],
      7: ['results-embedded-7.json'],
      8: ['results-embedded-8.json'],
      9: ['results-SmolLM2-135M-Instruct.Q4_1-9.json'],
      10: ['results-embedded-10.json', 'results-SmolLM2-135M-Instruct.Q4_1-10.json'],
      11: ['results-embedded-11.json', 'results-SmolLM2-135M-Instruct.Q4_1-11.json'],
    };
    const digests = [planText(name), ...results[name].map(study)].map((text) => {
      const { digest: own, plan } = JSON.parse(text) as { digest?: string; plan?: string };
      return own ?? plan;
    });
    expect(new Set(digests)).toEqual(new Set([digest(planOf(name))]));
  });
});

it('plans of before mean what their pieces did then, and later ones what they say', async () => {
  for (const [text, label] of [
    ['cpe(budget=64,phi=1,psi=1)', 'among=retrievers'],
    [
      'view(budget=64,of=dots ∘ mandatory(sinks=8,recent=32) ∘ topK ∘ cis(block=8,sinks=8,local=32))',
      'cis(among=retrievers',
    ],
    ['crystalcache(recent=8)', 'trunks(edges=either)'],
    ['taFast', (await policyOf('taFast(reach=6)')).label],
    ['weighted(10*saliency,10*rarity) ∘ clip ∘ trunks ∘ standout ∘ branchDissolution', 'trunks(edges=either)'],
  ])
    expect((await policyOf(text)).label, text).toContain(label);
  expect((await policyOf('cpe(among=any,phi=1,psi=1)')).label).not.toContain('among');
  expect((await policyOf('crystalcache(edges=forward)')).label).toContain(' trunks ∘');
});
it('plans after the fifth write out the options whose defaults have changed since; the ninth and tenth forgot', () => {
  for (const [name, plan] of plans.filter(([name]) => Number(name) > 5 && name !== '9' && name !== '10'))
    for (const { policy } of plan.rows
      .filter(isPlanned)
      .flatMap(({ contrasts }) => contrasts.flatMap(({ a, b }) => (b ? [a, b] : [a]))))
      for (const [call, piece] of policy.matchAll(/\b(cis|cpe|crystalcache|trunks|taFast)\([^()]*\)/g))
        expect(call, `plan ${name}`).toContain(
          piece === 'taFast' ? 'reach=' : /^c[ip]/.test(piece) ? 'among=' : 'edges=',
        );
});
it('a plan says a share in points, and a ratio of times in percent', () => {
  const said = plans.flatMap(([, { rows }]) => rows.map((row) => rowText(row))).join('\n');
  expect(said).toMatch(/ better than .* by more than 50 points/);
  expect(said).toMatch(/ln ms of prefill, event and tokens of .* better than .*, or worse by less than 1 %/);
  expect(said).toMatch(/ worse than .*, or better by less than 2 points/);
});

describe('power', () => {
  it('is the share of studies whose interval lies above the threshold, arms erring independently', () => {
    const draw = random('power'),
      studies = 4000,
      z = { 1: 1.95996, 4: 2.49771 };
    for (const [a, b, threshold, n, contrasts] of [
      [0.7, 0.5, 0, 60, 1],
      [0.9, 0.4, 0.3, 80, 4],
      [0.35, 0.05, 0, 24, 1],
    ] as const) {
      let found = 0;
      for (let s = 0; s < studies; s++) {
        let gain = 0;
        for (let i = 0; i < n; i++) gain += Number(draw.next() < a) - Number(draw.next() < b);
        const error = Math.sqrt((a * (1 - a) + b * (1 - b)) / n);
        if (gain / n - z[contrasts] * error > threshold) found++;
      }
      const power = powerOf({ printed: [a, b], threshold }, n, contrasts);
      expect(Math.abs((power ?? NaN) - found / studies), `${a} against ${b}`).toBeLessThan(0.06);
    }
    expect(powerOf({ printed: [1, 0], threshold: 0.5 }, 2, 4)).toBe(1);
    expect(powerOf({ printed: [1, 1], threshold: 0 }, 200, 1)).toBe(0);
    expect(powerOf({ threshold: 0 }, 200, 1)).toBeUndefined();
  });
});

describe('plans', () => {
  it("have seeds of their own, so that no prompt of one is another's", () =>
    expect(new Set(plans.map(([, { seed }]) => seed)).size).toBe(plans.length));
  it('are for one kind of model, or both', () => {
    expect([planFor('1', 'embedded'), planFor('1', 'real')]).toEqual([first, first]);
    expect(() => planFor('2', 'real')).toThrow(
      'plan: expected 1 or 3 or 4 or 5 or 6 or 9 or 10 or 11 for a checkpoint, got 2, whose rows are for the embedded model',
    );
    expect(() => planFor('3', 'embedded')).toThrow(
      'plan: expected 1 or 2 or 4 or 5 or 7 or 8 or 10 or 11 for the embedded model, got 3, whose rows are for a checkpoint',
    );
  });
});

describe('jobs', () => {
  const row = planned.find(({ id }) => id === 'ta-tokenizer')!,
    other = planned.find(({ id }) => id === 'ta-credentials')!;
  it('ask each prompt of a task once, first prompts first, with the arms of all rows and the full cache', () => {
    const jobs = jobsOf(first, [row, other], 'embedded', 3, new Map());
    expect(jobs.map(({ task, trial }) => `${task}/${trial}`)).toEqual(
      [0, 1, 2].flatMap((t) => [`code-agnostic/${t}`, `code-aware/${t}`]),
    );
    const keys = jobs[0].arms.map(armKey);
    expect(new Set(keys).size).toBe(keys.length);
    expect(keys).toEqual(
      expect.arrayContaining([
        'full',
        'taFast(reach=8,slots=8) @ 16',
        'taFast(reach=6,slots=8) @ 16',
        'tova @ 16',
        'tova @ 64',
      ]),
    );
  });
  it('leave out what is known, arm by arm, and take nothing of a task that was another', () => {
    const arm = armKey(row.contrasts[0].a),
      result = (spec: string): PaperResult => ({
        task: 'code-agnostic',
        spec,
        trial: 1,
        seconds: 1,
        numbers: { [arm]: { hit: 1 } },
      });
    const left = (spec: string): readonly number[] =>
      jobsOf(first, [row], 'embedded', 2, known([result(spec)], first)).map(({ arms }) => arms.length);
    expect(left(specOf(tasks['code-agnostic']))).toEqual([3, 2]);
    expect(left('another')).toEqual([3, 3]);
    expect(
      jobsOf(
        first,
        [row],
        'embedded',
        2,
        known(
          [0, 1].map((trial) => ({
            ...result(specOf(tasks['code-agnostic'])),
            trial,
            numbers: Object.fromEntries(['full', arm, armKey(row.contrasts[0].b!)].map((key) => [key, { hit: 1 }])),
          })),
          first,
        ),
      ),
    ).toEqual([]);
  });
});

describe('prompts of tasks of kv eval', () => {
  const source = {
    encode: (text: string) => ({
      ids: Array.from(text, (c) => c.codePointAt(0) ?? 0),
      offsets: Array.from(text, (_, i): [number, number] => [i, i + 1]),
      text,
    }),
    sentences: ['The rain had stopped by noon.', 'Nobody came to the door.', 'A cart went by.'],
    embedded: true,
  };
  it('hide their answers where the value tokens say, and grade as kv eval does', () => {
    for (const task of ['formats', 'confusers_10', 'anchors', 'tool_12'] as const)
      for (const trial of [0, 1, 6]) {
        const { documentIds, valueTokens, questions } = promptFor(
          { kind: 'generated', tokens: 900, task },
          source as never,
          'seed',
          trial,
        );
        const value = String.fromCodePoint(...valueTokens.map((at) => documentIds[at]));
        expect(value, task).toMatch(/^[A-Z0-9]{8,12}$/);
        expect(String.fromCodePoint(...documentIds).split(value)).toHaveLength(2);
        expect([questions[0].right(value), questions[0].right(value.slice(1))]).toEqual([true, false]);
        expect(documentIds.length + questions[0].ids.length).toBeLessThanOrEqual(900);
      }
  });
  it('needles of one depth stand there in every prompt', () => {
    const places = [0, 1, 2].map((trial) => {
      const task = { kind: 'needle', tokens: 600, mode: 'agnostic', form: 'code', depth: 1 } as const,
        { documentIds, valueTokens } = promptFor(task, source as never, `seed/${trial}`, trial);
      return valueTokens[0] / documentIds.length;
    });
    for (const place of places) expect(place).toBeGreaterThan(0.95);
  });
});

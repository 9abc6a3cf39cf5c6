import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { digest } from '@kv/evaluation/shared';
import { writeTinyModel } from '@kv/model-testing';
import { loadModel } from '@kv/models';
import { heldOutBook, sentencesOf } from '@kv/tasks';
import { beforeAll, describe, expect, it } from 'vitest';
import { carried } from '../src/carries.ts';
import type { Carrier } from '../src/carries.ts';
import { known, specOf } from '../src/jobs.ts';
import type { PaperResult } from '../src/jobs.ts';
import { outcomeCells, studyMarkdown } from '../src/markdown.ts';
import { outcomeOf } from '../src/outcome.ts';
import { planOf } from '../src/plans.ts';
import { isAsked, promptFor } from '../src/prompts.ts';
import { paperStudy } from '../src/study.ts';
import { runTrial } from '../src/trial.ts';
import type { PaperBench } from '../src/tried.ts';
import { armKey, FULL, isPlanned } from '../src/types.ts';
import type { Arm, Excused, Plan, Planned, Task } from '../src/types.ts';
import { proseOf, windowOf } from '../src/windows.ts';
import { paperJobs } from '../src/work.ts';

const first = planOf('1');
const row = (id: string): Planned => first.rows.filter(isPlanned).find((one) => one.id === id)!;
let bench: PaperBench;

beforeAll(async () => {
  const model = await loadModel(writeTinyModel(join(mkdtempSync(join(tmpdir(), 'kv-papers-')), 'tiny'))),
    book = await heldOutBook();
  bench = {
    model,
    seed: 1,
    embedded: false,
    sentences: sentencesOf(book),
    prose: proseOf(book, model.tokenizer, first, 1),
  };
});
const times = <T>(n: number, value: T): T[] => Array.from({ length: n }, () => value);
const run = (task: Task, arms: readonly Arm[], trial = 0): ReturnType<typeof runTrial> =>
  runTrial(bench, 'test', task, trial, arms);

describe('a trial', () => {
  const arms: readonly Arm[] = [
    FULL,
    { policy: 'streaming', budget: 24 },
    { policy: 'taFast(reach=9,slots=9)', budget: 24 },
  ];
  it('asks every arm the same prompt and counts its mean cache while it answers', async () => {
    const out = await run({ kind: 'needle', tokens: 220, mode: 'agnostic', form: 'code' }, arms);
    expect(Object.keys(out)).toEqual(arms.map(armKey));
    expect(out.full).toMatchObject({ retained: 1 });
    expect(out['streaming @ 24']).toMatchObject({ retained: 0 });
    expect(out['taFast(reach=9,slots=9) @ 24']).toMatchObject({ retained: 1 });
    const question = 18; // "\nThe <key> code is:", a token a character, or a few more
    for (const key of ['streaming @ 24', 'taFast(reach=9,slots=9) @ 24'])
      expect(out[key].slots!).toBeGreaterThan(24 + question - 4);
    expect(out.full.slots! - out['streaming @ 24'].slots!).toBeGreaterThan(220 - 60);
  });
  it('gives the same again, and another prompt to another trial', async () => {
    const task: Task = { kind: 'continuation', context: 96, follow: 16 };
    const [one, again, other] = [await run(task, arms), await run(task, arms), await run(task, arms, 1)];
    expect(again).toEqual(one);
    expect(other.full.nll).not.toBe(one.full.nll);
  });
  it('measures likelihoods at a matched cache: events while it goes on keep it there', async () => {
    const out = await run({ kind: 'continuation', context: 96, follow: 32, every: 4 }, [
      FULL,
      { policy: 'streaming', budget: 16 },
      { policy: 'h2o', budget: 16 },
    ]);
    expect(out['streaming @ 16'].slots).toBeCloseTo(out['h2o @ 16'].slots!, 6);
    expect(out['streaming @ 16'].slots!).toBeGreaterThan(16);
    expect(out['streaming @ 16'].slots!).toBeLessThan(20);
    expect(out.full.slots).toBeCloseTo(96 + 16.5, 6);
  });
  it('steps and one pass give the full cache the same likelihood', async () => {
    const [steps, pass] = [
      await run({ kind: 'continuation', context: 96, follow: 16, every: 8 }, [FULL]),
      await run({ kind: 'continuation', context: 96, follow: 16 }, [FULL]),
    ];
    expect(steps.full.nll).toBeCloseTo(pass.full.nll!, 4);
  });
  it('counts retrievals: a threshold that nothing passes retrieves always, one that everything passes once a block', async () => {
    const at = (threshold: number): Arm => ({
      policy: `view(queryKeyProducts ∘ mandatory(sinks=4,recent=8) ∘ topK ∘ cis(block=8,threshold=${threshold},sinks=4,local=8),budget=24)`,
      budget: 24,
    });
    const out = await run({ kind: 'continuation', context: 96, follow: 16, every: 16 }, [at(2), at(-2)]);
    expect(out[armKey(at(2))].retrievals).toBeCloseTo(1, 6);
    // steps count from 1: 16 of them touch three blocks of 8
    expect(out[armKey(at(-2))].retrievals).toBeCloseTo(3 / 16, 6);
    // all keys, and keys and values of 24 slots or one more
    expect(out[armKey(at(2))].keyBytes).toBeCloseTo((104 + 2 * 24.5) / (2 * 104), 2);
    // what the engine counts is what an observer sees
    const seen = await run({ kind: 'continuation', context: 96, follow: 16, every: 16, witnessed: true }, [at(0.8)]),
      counted = await run({ kind: 'continuation', context: 96, follow: 16, every: 16 }, [at(0.8)]),
      [a, b] = [seen, counted].map((one) => one[armKey(at(0.8))]);
    expect(a.retrievals).toBeCloseTo(b.retrievals!, 6);
    expect(a.keyBytes! / b.keyBytes!).toBeCloseTo(1, 2);
  });
  it('measures what views hide where it is told to: all that is seen is among the heaviest under the oracle, and nothing is hidden from the full cache', async () => {
    const task: Task = { kind: 'continuation', context: 96, follow: 8, every: 8, witnessed: true },
      oracle: Arm = { policy: 'topKOracle(slots=24)', budget: 24 },
      streaming: Arm = { policy: 'view(streaming ∘ topK,budget=24)', budget: 24 };
    const out = await run(task, [FULL, oracle, streaming]),
      [best, last] = [out[armKey(oracle)], out[armKey(streaming)]];
    expect(out.full).not.toHaveProperty('overlap');
    expect(best.overlap!).toBeGreaterThan(0.95); // a query sees its own token too, which may not be among the heaviest
    expect(best.slots!).toBeGreaterThan(24);
    expect(best.slots!).toBeLessThan(25);
    expect(last.overlap!).toBeLessThan(0.9);
    expect(last.hiddenMass!).toBeGreaterThan(best.hiddenMass!);
    expect(await run({ kind: 'continuation', context: 96, follow: 8, every: 8 }, [oracle])).not.toHaveProperty([
      armKey(oracle),
      'overlap',
    ]);
  });
  it('asks begun answers as steps would: what says the tokens of the full cache is as right as the full cache', async () => {
    const task: Task = { kind: 'needle', tokens: 220, mode: 'agnostic', form: 'number', asking: 'begun' },
      same: Arm = { policy: 'streaming', budget: 220 },
      other: Arm = { policy: 'streaming', budget: 24 };
    const {
        documentIds,
        questions: [question],
      } = promptFor(
        task as never,
        { encode: bench.model.tokenizer.encode, sentences: bench.sentences, embedded: false },
        'papers/1/test/0',
        0,
      ),
      { decode } = bench.model.tokenizer;
    expect(decode([...question.ids])).toMatch(
      /^\nQuestion: What is the special magic (\w+) number\?\nAnswer: The special magic \1 number is$/,
    );
    expect(documentIds.length + question.ids.length).toBe(220);
    const value = /number is: (\d{7})\./.exec(decode([...documentIds]))![1];
    expect([` ${value}.`, `: ${value}`, ` 1234567 or ${value}`].map((answer) => question.right(answer))).toEqual([
      true,
      true,
      false,
    ]);
    const out = await run(task, [FULL, same, other]);
    expect(out[armKey(same)].hit).toBe(out.full.hit);
    expect(out.full.slots! - out[armKey(other)].slots!).toBeCloseTo(220 - question.ids.length - 24, 6);
  });
  it('takes an arm for right where it would say what the full cache said, and for wrong where it would not', async () => {
    const embedded: PaperBench = { ...bench, model: await loadModel('embedded') },
      [same, other]: readonly Arm[] = [
        { policy: 'streaming', budget: 220 },
        { policy: 'streaming', budget: 24 },
      ];
    const out = await runTrial(
      embedded,
      'test',
      { kind: 'needle', tokens: 220, mode: 'aware', form: 'code', asking: 'begun' },
      0,
      [FULL, same, other],
    );
    expect([FULL, same, other].map((arm) => out[armKey(arm)].hit)).toEqual([1, 1, 0]);
  });
  it('ranks a scorer like itself, reads a prompt, and measures costs', async () => {
    const ranks = await run({ kind: 'ranks', tokens: 96, with: 'h2oCaote' }, [
      { policy: 'h2oCaote' },
      { policy: 'knorm' },
    ]);
    expect(ranks.h2oCaote.spearmanLeast).toBeCloseTo(1, 12);
    expect(ranks.knorm.spearman!).toBeLessThan(0.99);
    const prompt = await run({ kind: 'prompt', tokens: 96 }, [FULL, { policy: 'psaw(phi=0.5)' }]);
    expect(prompt.full.nll!).toBeGreaterThan(0);
    expect(prompt['psaw(phi=0.5)'].nll).not.toBe(prompt.full.nll);
    const costs = await run({ kind: 'costs', tokens: 96, follow: 2 }, [
      { policy: 'h2o', budget: 16 },
      { policy: 'streaming', budget: 16 },
    ]);
    expect(costs['h2o @ 16'].peakBytes!).toBeGreaterThan(costs['streaming @ 16'].peakBytes!);
    expect(costs['h2o @ 16'].eventShare!).toBeGreaterThan(0);
  });
  it('hides every value of a prompt once, where it says', () => {
    const { encode, decode } = bench.model.tokenizer,
      source = { encode, sentences: bench.sentences, embedded: false };
    const tasks: readonly Task[] = [
      { kind: 'association', tokens: 700, density: 'high' },
      { kind: 'association', tokens: 700, density: 'low' },
      { kind: 'credential', tokens: 700, values: 1 },
      { kind: 'credential', tokens: 700, values: 3 },
    ];
    for (const task of tasks)
      for (const trial of [0, 1, 2]) {
        if (!isAsked(task)) continue;
        const { documentIds, questions, valueTokens } = promptFor(task, source, `s/${trial}`, trial),
          held = decode(valueTokens.map((at) => documentIds[at])),
          text = decode([...documentIds]);
        expect(questions.length).toBe(task.kind === 'credential' ? task.values : 1);
        if (task.kind === 'association') expect(questions[0].right(` ${held}.`)).toBe(true);
        else if (task.kind === 'credential' && task.values === 1) expect(questions[0].right(`${held}"`)).toBe(true);
        if (questions.length === 1) expect(text.split(held)).toHaveLength(2);
        expect(
          documentIds.length +
            encode(
              task.kind === 'credential' ? '\nThe agent called connect(auth_token="' : decode([...questions[0].ids]),
              { special: false },
            ).ids.length,
        ).toBe(700);
      }
  });
  it('puts a framing sentence before the fact, and only where it is asked to', () => {
    const { encode, decode } = bench.model.tokenizer,
      source = { encode, sentences: bench.sentences, embedded: true };
    const text = (framed?: true): string =>
      decode([
        ...promptFor({ kind: 'association', tokens: 700, density: 'low', ...(framed && { framed }) }, source, 's', 0)
          .documentIds,
      ]);
    expect(text()).toMatch(/^(<[^>]+>)?The special magic \w+ number is: \d{4}\./);
    expect(text(true)).toMatch(
      /^(<[^>]+>)?Here are the notes of several meetings, in the order in which they were taken\. The special magic \w+ number is: \d{4}\./,
    );
  });
  it('takes disjoint windows, of another part of the book for the plan', () => {
    const a = windowOf(bench, 64, 0),
      b = windowOf(bench, 64, 1),
      { model } = bench;
    expect(a).toHaveLength(64);
    expect(windowOf({ model, prose: bench.prose }, 127, 0).slice(0, 64)).toEqual(a);
    expect(windowOf({ model, prose: bench.prose }, 127, 0).slice(64)).toEqual(b.slice(1));
    const size = (plan: { seed: number; prose?: readonly [number, number] }, seed: number): number =>
      proseOf('One two, \r\n\r\nthree four. '.repeat(100), model.tokenizer, plan, seed).length / 2100; // a token a byte
    expect(
      [size({ seed: 7 }, 1), size({ seed: 7 }, 7), size({ seed: 7, prose: [0.6, 1] }, 7)].map((share) =>
        Math.round(10 * share),
      ),
    ).toEqual([3, 7, 4]);
    expect(() => windowOf(bench, 64, 1e6)).toThrow(
      /n: expected at most \d+ windows of 64 tokens in the text, got 1000001/,
    );
  });
});

describe('a row on a checkpoint', () => {
  const excuse = async (
    id: string,
    more: Partial<Carrier['subject']> = {},
    { n, prose = 30_000 }: { readonly n?: number; readonly prose?: number } = {},
  ): Promise<string | undefined> => {
    const plan = planOf('3'),
      { model, sentences } = bench,
      config = { ...model.config, maxPositions: 8192 };
    const [one] = await carried(
      plan.rows.filter((row) => row.id === id),
      plan,
      { subject: { ...model, config, ...more }, sentences, prose },
      n,
    );
    return isPlanned(one) ? undefined : one.excuse;
  };
  it('is asked where context, text and files are enough', async () =>
    expect([await excuse('ta-credentials'), await excuse('caote-fast-ranks'), await excuse('psaw-etf')]).toEqual([
      undefined,
      undefined,
      undefined,
    ]));
  it('is excused in a sentence where they are not', async () => {
    expect(await excuse('ta-perplexity', { config: { ...bench.model.config, maxPositions: 256 } })).toBe(
      'prose-at-16 takes 320 tokens of context, this model has 256',
    );
    expect(await excuse('ta-perplexity', {}, { prose: 1000 })).toBe(
      'prose-at-16 takes 8 windows of 320 tokens, its part of the text has 1000 with this tokenizer: a longer one makes room',
    );
    expect(await excuse('ta-perplexity', {}, { prose: 1000, n: 3 })).toBeUndefined();
    expect(await excuse('alpha-base')).toBe(
      "futureQueryScores: expected pre-rope.safetensors next to the model, got none: make it with 'node tools/calibrate.mjs MODEL'",
    );
    const { encode } = bench.model.tokenizer,
      wordy = {
        ...bench.model.tokenizer,
        encode: (text: string, options?: { special?: boolean }) => {
          const { ids, offsets } = encode(text, options);
          return { ids: ids.flatMap((id) => times(20, id)), offsets: offsets.flatMap((span) => times(20, span)) };
        },
      };
    expect(await excuse('ta-decoys', { tokenizer: wordy as never })).toMatch(
      /^decoys cannot be written with this tokenizer: /,
    );
  });
});

describe('a text of the user', () => {
  it('is what prose comes from, in the study and in its threads, and names its results', async () => {
    const plan = { ...planOf('5'), seed: 6025 },
      subject = { ...bench.model, name: 'embedded', config: { ...bench.model.config, maxPositions: 8192 } },
      of = (text?: string) => paperStudy(subject, plan, { rows: ['psaw-table-6'], text }),
      longer = 'Another book, with many words in it. '.repeat(4000);
    const [short, long] = [await of('Too short.'), await of(longer)];
    expect(short.conclude([]).excused[0].excuse).toMatch(
      /^prose-prefill takes 24 windows of 512 tokens, its part of the text has \d with this tokenizer: a longer one makes/,
    );
    expect([short, long].map(({ left }) => left([]).length)).toEqual([0, 24]);
    expect(long.work).toMatchObject({ text: longer });
    expect(new Set([short, long, await of()].map(({ settings }) => digest(settings))).size).toBe(3);
    const small = { ...plan, tasks: { some: { kind: 'prompt', tokens: 64 } } };
    const likelihood = async (text: string): Promise<number> => {
      const job = await paperJobs({ ...long.work, text, plan: small as unknown as Plan }, bench),
        { numbers } = (await job({ task: 'some', trial: 0, arms: [FULL] })) as PaperResult;
      return numbers.full.nll!;
    };
    expect(await likelihood(longer)).not.toBeCloseTo(await likelihood('3.14 1.41 2.72 '.repeat(4000)), 3);
  });
});

describe('an outcome', () => {
  const some = (hits: Readonly<Record<string, number>>): PaperResult[] =>
    Array.from({ length: 12 }, (_, trial) => ({
      task: 'code-agnostic',
      spec: specOf(first.tasks['code-agnostic']),
      trial,
      seconds: 1,
      numbers: Object.fromEntries(Object.entries(hits).map(([arm, hit]) => [arm, { hit, slots: 30 }])),
    }));
  const [a, b] = ['taFast(reach=8,slots=8) @ 16', 'taFast(reach=6,slots=8) @ 16'] as const;
  it('holds, falls, and tells nothing where the full cache fails', () => {
    const of = (hits: Readonly<Record<string, number>>): string =>
      outcomeOf(row('ta-tokenizer'), 'embedded', 12, known(some(hits), first)).verdict;
    expect(of({ full: 1, [a]: 1, [b]: 0 })).toBe('held');
    expect(of({ full: 1, [a]: 0, [b]: 1 })).toBe('not');
    expect(of({ full: 0, [a]: 1, [b]: 0 })).toBe('undecided');
    const nearly = known(some({ full: 0.7, [a]: 1, [b]: 0 }), first);
    expect(outcomeOf(row('ta-tokenizer'), 'embedded', 12, nearly).verdict).toBe('held');
    expect(outcomeOf(row('ta-tokenizer'), 'embedded', 12, nearly, 0.8).measured[0].because).toContain(
      'the full cache itself has 70 %',
    );
  });
  it('is printed with its promise, its interval and its verdict, and says when it is not the plan', () => {
    const outcome = outcomeOf(row('ta-tokenizer'), 'embedded', 12, known(some({ full: 1, [a]: 1, [b]: 0 }), first));
    const study = {
      date: 'today',
      plan: 'p',
      model: 'm',
      weights: 'w',
      engine: 'e',
      seed: 1,
      code: [],
      label: "development: not the plan's prompts",
      seconds: 1,
      outcomes: [outcome],
      excused: first.rows.filter((one): one is Excused => !isPlanned(one)),
      left: ['ta-credentials'],
    } as const;
    expect(studyMarkdown(study, 'study papers')).toContain(
      "| TA | TA's limit is the tokenizer | 5 -> 100 % | +100 points [+100, +100] | 12, screening | held |",
    );
    expect(studyMarkdown(study, 'study papers')).toContain('- ta-credentials: not asked for by this command.');
    expect(studyMarkdown(study, 'study papers')).toContain("**development: not the plan's prompts.**");
    expect(outcomeCells(outcome)).toEqual(['5 -> 100 %', '+100 points [+100, +100]', '12, screening', 'held']);
  });
});

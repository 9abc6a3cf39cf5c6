import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeTinyModel } from '@kv/model-testing';
import { loadModel } from '@kv/models';
import type { Model } from '@kv/models';
import { grade } from '@kv/tasks';
import type { Problem } from '@kv/tasks';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { runCell } from '../src/cells/run-cell.ts';
import type { SweepAnswers } from '../src/sweep/run.ts';
import {
  cellExperiment,
  generationOf,
  here,
  readSweep,
  runExperiment,
  sweepCsv,
  sweepModel,
  sweepReport,
  sweepTasks,
} from '../src/index.ts';
import { windows } from '../src/sweep/text.ts';
import { folder } from './folder.ts';
import { llama64 } from './llama64.oracle.ts';

let model: Model, path: string;
beforeAll(async () => {
  path = writeTinyModel(join(folder(), 'tiny'));
  model = await loadModel(path);
});
const PROMPT = 'It was the best of times, it was the worst of times.',
  NEXT = ' It was the age of wisdom, it was é.',
  problem: Problem = {
    id: 'p',
    context: PROMPT,
    question: '',
    answers: [NEXT],
    grader: 'perplexity',
    maxNewTokens: 8,
  };

type Keeps = (positions: readonly number[], fed: number) => readonly number[];
/**
 * Returns the mean -ln p of the tokens after the prompt, in float64; `keeps` gives what stays after the prompt and the
 * given number of tokens.
 */
function nats64(keeps: Keeps): number {
  const oracle = llama64(path),
    ids = model.tokenizer.encode(PROMPT + NEXT).ids,
    from = model.tokenizer.encode(PROMPT).ids.length;
  let sum = 0;
  for (const [i, next] of ids.slice(1).entries()) {
    const logits = oracle.feed(ids[i]),
      fed = i + 1 - from;
    if (fed < 0) continue;
    oracle.keep((positions) => keeps(positions, fed));
    const most = Math.max(...logits);
    sum += most + Math.log(logits.reduce((all, x) => all + Math.exp(x - most), 0)) - logits[next];
  }
  return sum / (ids.length - from);
}
const streaming = (positions: readonly number[], budget: number): readonly number[] =>
  positions.length <= budget ? positions : [...positions.slice(0, 4), ...positions.slice(4 - budget)];

describe('perplexity', () => {
  it.each([
    ['full', undefined, undefined, (positions: readonly number[]) => positions],
    [
      'streaming(sinks=4)',
      16,
      undefined,
      (positions: readonly number[], fed: number) => (fed === 0 ? streaming(positions, 16) : positions),
    ],
    [
      'streaming(sinks=4)',
      16,
      3,
      (positions: readonly number[], fed: number) => (fed % 3 === 0 ? streaming(positions, 16) : positions),
    ],
  ] as const)(
    'of %s at %s slots, events every %s tokens, is what float64 has',
    async (policy, budget, every, keeps) => {
      const cell = { task: 't', problem: 'p', policy, seed: 0, ...(budget !== undefined && { budget }) },
        { answer, score, parsed, tokens, slots } = await runCell({ model }, problem, { every }, cell),
        want = nats64(keeps),
        n = model.tokenizer.encode(PROMPT + NEXT).ids.length - model.tokenizer.encode(PROMPT).ids.length;
      expect(tokens).toBe(n);
      expect(Number(answer)).toBeCloseTo(want, 5);
      expect([score, parsed]).toEqual([Math.exp(-Number(answer)), true]);
      const first = budget ?? model.tokenizer.encode(PROMPT).ids.length;
      if (every === undefined) expect(slots.mean).toBeCloseTo(first + (n - 1) / 2, 10);
      else expect(slots.peak).toBeLessThan(first + 64);
    },
  );
  it('is read in blocks as it is token by token', async () => {
    const cell = { task: 't', problem: 'p', policy: 'streaming(sinks=4)', budget: 16, seed: 0 },
      blocks = await runCell({ model }, problem, {}, cell),
      steps = await runCell({ model }, problem, { every: 2 ** 20 }, cell);
    expect(Number(blocks.answer)).toBeCloseTo(Number(steps.answer), 5);
    expect(blocks.slots).toEqual(steps.slots);
    // bytes are those of the slots along the text, not of its end
    expect(Math.abs(blocks.bytes.mean / steps.bytes.mean - 1)).toBeLessThan(0.05);
    expect(blocks.bytes.mean).toBeLessThan(0.95 * blocks.bytes.peak);
  });
  it('is a number, of which the score is one over the exponential', () => {
    const graded = (answer: string): ReturnType<typeof grade> => grade(answer, { grader: 'perplexity', answers: [''] });
    fc.assert(
      fc.property(fc.double({ min: 0, max: 50, noNaN: true }), (nats) => {
        expect(graded(String(nats))).toEqual({ score: Math.exp(-nats), parsed: true });
      }),
    );
    for (const answer of ['', ' ', '-1', 'NaN', 'two', '1 2'])
      expect(graded(answer)).toEqual({ score: 0, parsed: false });
  });
});

describe('windows of a text', () => {
  const cut = (text: string, options: object = {}): readonly Problem[] =>
    windows(text, 't', { encode: model.tokenizer.encode, tokens: 33, read: 8, problems: 3, ...options });
  it('are disjoint, in order, and of the given number of tokens', () => {
    const text = 'abcdefghijklmnopqrstuvwxyz'.repeat(6),
      found = cut(text);
    expect(found.map(({ id }) => id)).toEqual(['t/0', 't/1', 't/2']);
    expect(found.map(({ context, answers }) => context + answers[0]).join('')).toBe(text.slice(0, 96));
    for (const { context, answers } of found) expect([context.length, answers[0].length]).toEqual([24, 8]);
  });
  it('are refused where the text is too short, or all of a window is read', () => {
    expect(() => cut('x'.repeat(95))).toThrow('t: expected a text of at least 96 tokens, got 95');
    expect(() => cut('x'.repeat(96), { read: 32 })).toThrow(
      't: read must be less than the 32 tokens of a window, got 32',
    );
  });
});

/** Runs a sweep of one model, and returns what came of it. */
async function swept(file: string): Promise<SweepAnswers & { readonly html: string }> {
  const read = readSweep(file, 's'),
    tasks = await sweepTasks(read, file, model.tokenizer.encode),
    { rows, samples } = await sweepModel(
      'tiny',
      read,
      tasks,
      async (cells) => {
        const options = { name: 'c', tasks, generation: generationOf(read), policies: read.policies, cells };
        return (await runExperiment(await cellExperiment(model, options), { start: here({ model }) }))!; // nothing aborts it
      },
      undefined,
    ),
    outcome = { rows, samples: { tiny: samples } };
  return {
    ...outcome,
    html: sweepReport({ format: 1, ...outcome }, { command: '', sweep: read, versions: {}, hashes: {} }),
  };
}

it("a sweep reads a user's text, and reports its perplexity with an interval", async () => {
  const within = folder(),
    file = join(within, 'sweep.json');
  writeFileSync(join(within, 'book.txt'), readFileSync(new URL(import.meta.url), 'utf8'));
  const task = { task: 'perplexity', text: 'book.txt', tokens: 65, problems: 6, read: 16 },
    sweep = { models: ['tiny'], policies: ['full', 'streaming'], tasks: [task], budgets: [16] };
  writeFileSync(file, JSON.stringify(sweep));
  const {
    rows,
    samples: { tiny: samples },
    html,
  } = await swept(file);
  expect(rows.map(({ task: named, policy, samples: n }) => [named, policy, n])).toEqual([
    ['perplexity of book.txt@65', 'full', 6],
    ['perplexity of book.txt@65', 'streaming', 6],
  ]);
  for (const { perplexity, policy, interval } of rows) {
    const nats = samples.filter((sample) => sample.policy === policy).map(({ answer }) => Number(answer)),
      value = Math.exp(nats.reduce((a, b) => a + b, 0) / 6);
    expect(perplexity?.value).toBeCloseTo(value, 8);
    expect(perplexity!.low).toBeLessThanOrEqual(value);
    expect(perplexity!.high).toBeGreaterThanOrEqual(value);
    expect(interval).toBeUndefined();
  }
  expect(html).toMatch(
    /streaming<\/strong> at 16 slots reads perplexity of book\.txt@65 on tiny at perplexity [\d.]+ \[.*\] with .* times \d\.\d{3} \[/,
  );
  expect(html).toContain('One over the perplexity against mean bytes');
  for (const [change, said] of [
    [{ text: 'none.txt' }, 'none.txt: expected a file that can be read, got ENOENT'],
    [{ problems: 9999 }, 'perplexity of book.txt@65: expected a text of at least 639936 tokens, got '],
  ] as const) {
    writeFileSync(file, JSON.stringify({ ...sweep, tasks: [{ ...task, ...change }] }));
    await expect(sweepTasks(readSweep(file, 's'), file, model.tokenizer.encode)).rejects.toThrow(said);
  }
  writeFileSync(join(within, 'book.txt'), new Uint8Array([0xff, 0xfe, 0x41]));
  writeFileSync(file, JSON.stringify(sweep));
  await expect(sweepTasks(readSweep(file, 's'), file, model.tokenizer.encode)).rejects.toThrow(
    'book.txt: expected text in UTF-8, got other bytes',
  );
});

it('a sweep gives the perplexity of one window without an interval, which would have no width', async () => {
  const file = join(folder(), 'sweep.json'),
    task = { task: 'perplexity', tokens: 65, problems: 1, read: 16 };
  writeFileSync(
    file,
    JSON.stringify({ models: ['tiny'], policies: ['full', 'streaming'], tasks: [task], budgets: [16] }),
  );
  const { rows, html } = await swept(file);
  expect(rows.map(({ perplexity }) => Object.keys(perplexity!))).toEqual([['value'], ['value']]);
  for (const line of sweepCsv(rows).trimEnd().split('\r\n').slice(1)) expect(line).toMatch(/,\d+\.\d+,,$/);
  expect(html).toMatch(
    /at perplexity [\d.]+ with .* on average: \w+ (?:than|against) the full cache, times [\d.]+, p = /,
  );
});

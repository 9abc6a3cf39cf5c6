import { compile } from '@kv/core/engine';
import { KvError } from '@kv/core';
import { inTurn } from '@kv/model-testing/in-turn';
import { decode, loadModel, Sequence } from '@kv/models';
import type { Model } from '@kv/models';
import { parsePolicy, policyNames } from '@kv/policies';
import { heldOutBook, random } from '@kv/tasks';
import { build } from 'esbuild';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { candidatesOf, choose, splitPrompts } from '../src/choose.ts';
import type {
  Candidate,
  ChoiceJob,
  ChoiceProgress,
  ChoicePrompt,
  ChoiceResult,
  ChoiceWork,
  ChooseOptions,
  Outcome,
} from '../src/choose.ts';
import { runText, sharesPrefill } from '../src/choose/run-text.ts';

let model: Model, book: readonly number[];
beforeAll(async () => {
  model = await loadModel('embedded');
  book = model.tokenizer.encode((await heldOutBook()).slice(5000, 9000)).ids;
});

const candidate = (policy: string, share: number, cost = 0.1): Candidate => ({
  ...{ policy, budget: `${100 * share}%`, share, bytes: 1000 * share, cost },
});
const budget = { budget: '25%' } as const;

describe('candidates on one prefill', () => {
  it('keep and predict what they do on a prefill of their own', async () => {
    const ids = book.slice(0, 120),
      next = book.slice(120, 123),
      drawn = await candidatesOf(model, { lengths: [120], form: 'f32', budgets: ['25%'] }),
      unread = new Set(drawn.left.flatMap(({ policy, why }) => (why.includes('next to the model') ? policy : []))),
      names = inTurn([...new Set([...policyNames, ...drawn.candidates.map(({ policy }) => policy)])], 10);
    const policies = names.filter((name) => !unread.has(name)).map((name) => parsePolicy(name)),
      shared = policies.filter((policy) => sharesPrefill(compile(policy))),
      whole = new Sequence(model);
    await whole.prefill(ids, { policies: shared });
    const seen = async (sequence: Sequence, run: () => Promise<void>) => {
      try {
        await run();
        const kept = sequence.kept();
        for (const id of next) await sequence.step(id);
        const [logits] = await sequence.logits();
        return { kept, logits: [...logits] };
      } catch (error) {
        if (!KvError.is(error)) throw error;
        return error.message;
      } finally {
        sequence.destroy();
      }
    };
    let ran = 0;
    for (const [i, policy] of shared.entries()) {
      const limit = `${20 + 7 * (i % 9)}%` as const,
        alone = new Sequence(model),
        fork = whole.fork(),
        own = await seen(alone, () => alone.prefill(ids, { policy, budget: limit }));
      // what is recorded meanwhile may change the order of a sum
      const alike = typeof own === 'string' ? own : { ...own, logits: own.logits.map((x) => expect.closeTo(x, 3)) };
      expect(await seen(fork, () => fork.evict(policy, limit)), policy.label).toEqual(alike);
      if (typeof own === 'object') ran++;
    }
    whole.destroy();
    expect(ran).toBeGreaterThan(shared.length / 2);
    expect(shared.length).toBeGreaterThan(0.8 * policies.length);
  }, 60_000);
  it('are not shared by a policy that freezes tokens, which would keep other slots', async () => {
    expect(sharesPrefill(compile(parsePolicy('cpe')))).toBe(false);
  });
});

/** Returns the greedy answer of a policy on a sequence of its own, and the distributions along given tokens. */
async function alone(prompt: ChoicePrompt, { policy, budget: limit }: Candidate, tokens: readonly number[]) {
  const cut = async (): Promise<Sequence> => {
      const sequence = new Sequence(model);
      await sequence.prefill(prompt.ids, { policy, budget: limit });
      if (prompt.question) await sequence.append(prompt.question);
      return sequence;
    },
    answering = await cut(),
    answer: number[] = [];
  for await (const { token } of decode(answering, { maxNewTokens: 6 })) if (token !== undefined) answer.push(token);
  answering.destroy();
  const reading = await cut(),
    rows = [[...(await reading.logits()).at(-1)!]];
  for (const token of tokens.slice(0, -1)) {
    await reading.step(token);
    rows.push([...(await reading.logits()).at(-1)!]);
  }
  reading.destroy();
  return { answer, rows };
}
const probabilities = (row: readonly number[]): readonly number[] => {
  const total = row.reduce((sum, x) => sum + Math.exp(x), 0);
  return row.map((x) => Math.exp(x) / total);
};

describe('the outcome of a candidate', () => {
  it('is none where its policy keeps more than the budget', async () => {
    const policy = 'frequency | mandatory(prompt=true) | topK',
      prompts: readonly ChoicePrompt[] = [{ document: 'a', ids: book.slice(0, 90), origin: 'a' }],
      work: ChoiceWork = { kind: 'choose', prompts, candidates: [candidate(policy, 0.3)], answerTokens: 2 },
      { outcomes, refused } = await runText({ model }, work, { prompts: [0], ladders: [[0]] });
    expect(outcomes).toEqual([]);
    expect(refused).toEqual([[0, expect.stringContaining('keeps 30% of 90 tokens, got one that keeps 90')]]);
  });
  it('is that of its own answer, and of its distributions along the full answer', async () => {
    const prompts: readonly ChoicePrompt[] = [
        { document: 'a', ids: book.slice(0, 90), question: book.slice(200, 205), origin: 'a' },
        {
          document: 'a',
          ids: book.slice(0, 90),
          question: book.slice(300, 309),
          answers: [' the'],
          answerAt: [3, 4],
          origin: 'b',
        },
      ],
      // quest hides slots and drops none
      candidates = ['streaming', 'h2o', 'quest', 'knorm'].map((policy) =>
        candidate(policy, policy === 'quest' ? 1 : 0.3),
      ),
      work: ChoiceWork = { kind: 'choose', prompts, candidates, answerTokens: 6 };
    const { references, outcomes, refused } = await runText({ model }, work, {
      prompts: [0, 1],
      ladders: candidates.map((_, i) => [i]),
    });
    expect(refused).toEqual([]);
    expect(outcomes).toHaveLength(8);
    for (const [i, prompt] of prompts.entries()) {
      const full = await alone(prompt, candidate('full', 1), []),
        { tokens } = references[i][1];
      expect(tokens).toBe(full.answer.length);
      const along = await alone(prompt, candidate('full', 1), full.answer);
      for (const [c, one] of candidates.entries()) {
        const own = await alone(prompt, one, full.answer),
          [, , outcome] = outcomes.find(([p, k]) => p === i && k === c)!,
          kl = own.rows.map((row, at) => {
            const [p, q] = [probabilities(along.rows[at]), probabilities(row)];
            return p.reduce((sum, x, id) => sum + x * Math.log(x / q[id]), 0);
          });
        expect(outcome.same, one.policy).toBe(own.answer.join() === full.answer.join());
        expect(outcome.kl).toBeCloseTo(kl.reduce((a, b) => a + b, 0) / kl.length, 3);
        expect(outcome.right === undefined).toBe(i === 0);
        expect(outcome.held === undefined).toBe(i === 0);
        if (i === 1) expect(outcome.right).toBe(Number(model.tokenizer.decode(own.answer).includes(' the')));
      }
    }
  });
  it('is graded among the classes of its prompt', async () => {
    const prompt: ChoicePrompt = { document: 'a', ids: book.slice(0, 90), origin: 'a' },
      one = candidate('streaming', 0.3),
      said = async (by: Candidate) =>
        model.tokenizer
          .decode((await alone(prompt, by, [])).answer)
          .trim()
          .split('\n')[0],
      [truth, other] = [await said(candidate('full', 1)), await said(one)],
      asked = { ...prompt, answers: [truth], grader: 'classification' as const, classes: [truth, 'none of these'] },
      work: ChoiceWork = { kind: 'choose', prompts: [asked], candidates: [one], answerTokens: 6 },
      { references, outcomes } = await runText({ model }, work, { prompts: [0], ladders: [[0]] });
    expect(references[0][1].right).toBe(1);
    expect(outcomes[0][2].right).toBe(Number(other.includes(truth)));
  });
});

/** A runner that looks outcomes up, as a replay of stored ones does. */
function replay(
  outcomeOf: (prompt: number, candidate: number) => Pick<Outcome, 'same' | 'kl' | 'right'>,
  rightOf?: (prompt: number) => number,
) {
  const ran: (readonly [prompt: number, candidate: number])[] = [];
  const start = ({ candidates }: ChoiceWork) => ({
    async run({ prompts, ladders }: ChoiceJob): Promise<ChoiceResult> {
      const outcomes = prompts.flatMap((prompt) =>
        ladders.flat().map((i) => {
          ran.push([prompt, i]);
          const { share: slots, bytes } = candidates[i];
          return [prompt, i, { ...outcomeOf(prompt, i), slots, bytes, ms: 1 }] as const;
        }),
      );
      return {
        ...{ form: 'f32' as const, refused: [], ms: { full: 1, candidates: 1 }, outcomes },
        references: prompts.map(
          (prompt) =>
            [prompt, { tokens: 4, slots: 1, bytes: 1000, ms: 1, ...(rightOf && { right: rightOf(prompt) }) }] as const,
        ),
      };
    },
    stop: async () => {},
  });
  return { start, ran };
}
const texts = (n: number): readonly ChoicePrompt[] =>
  Array.from({ length: n }, (_, i) => ({ document: `d${i}`, ids: [i + 1, 2, 3], origin: `line ${i}` }));
const asked = (prompts: readonly ChoicePrompt[], options: ChooseOptions) =>
  choose(model, prompts, { minutes: Infinity, ...options });

describe('a choice', () => {
  it('within a budget diverges least of all that lose at most one text more than the least in the race, and asks nothing twice', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer(),
        fc.integer({ min: 2, max: 30 }),
        fc.integer({ min: 1, max: 12 }),
        async (seed, n, k) => {
          const draw = random(seed),
            quality = Array.from({ length: k }, () => draw.next()),
            table = Array.from({ length: n }, () => quality.map((q) => ({ same: draw.next() < q, kl: draw.next() }))),
            candidates = quality.map((_, i) => candidate(`p${i}`, 0.25)),
            { start, ran } = replay((prompt, i) => table[prompt][i]),
            prompts = texts(n),
            choice = await asked(prompts, { candidates, goal: budget, start, seed }),
            { choosing, confirming } = splitPrompts(prompts, seed),
            lost = (side: readonly number[], i: number) => side.filter((prompt) => !table[prompt][i].same).length;
          const [best] = choice.rows,
            at = Number(best.policy.slice(1)),
            alive = choice.rows.filter((row) => row.alive).map(({ policy }) => Number(policy.slice(1))),
            least = Math.min(...alive.map((i) => lost(choosing, i))),
            divergence = (i: number) => choosing.reduce((sum, prompt) => sum + table[prompt][i].kl, 0);
          expect(choice.chosen).toBe(0);
          expect(lost(choosing, at)).toBeLessThanOrEqual(least + 1);
          for (const i of alive.filter((one) => lost(choosing, one) <= least + 1))
            expect(divergence(at)).toBeLessThanOrEqual(divergence(i) + 1e-9);
          expect(best.confirmed).toMatchObject({
            mean: lost(confirming, at) / confirming.length,
            n: confirming.length,
          });
          expect(new Set(ran.map(String)).size).toBe(ran.length);
          expect(
            new Set(ran.filter(([prompt]) => confirming.includes(prompt)).map(([, i]) => i)).size,
          ).toBeLessThanOrEqual(8);
          expect(choice.done).toBe(true);
        },
      ),
      { numRuns: 40 },
    );
  });
  it('within a loss is the smallest that keeps it', async () => {
    // p0 keeps answers from 50 % on, p1 from 12.5 % on, p2 never
    const keeps = [0.5, 0.125, 2],
      shares = [0.0625, 0.125, 0.25, 0.5],
      candidates = keeps.flatMap((_, p) => shares.map((share) => candidate(`p${p}`, share))),
      outcomeOf = (_: number, i: number) => ({ same: candidates[i].share >= keeps[Math.floor(i / 4)], kl: 0 }),
      { start, ran } = replay(outcomeOf),
      choice = await asked(texts(40), { candidates, goal: { lose: 0.01 }, start });
    expect(choice.rows[choice.chosen ?? 99]).toMatchObject({
      policy: 'p1',
      share: 0.125,
      confirmed: { mean: 0, n: 20 },
    });
    expect(ran.length).toBeLessThan(40 * candidates.length);
    // budgets that another one of the same policy rules out are never asked, and nothing is left to do
    expect(choice).toMatchObject({ done: true, left: 0 });
    // what loses least is not what takes least
    const some = await asked(texts(40), {
      candidates: [candidate('finer', 0.5), candidate('coarser', 0.25)],
      goal: { lose: 0.3 },
      start: replay((prompt, i) => ({ same: i === 0 || prompt % 8 > 0, kl: i })).start,
    });
    expect(some.rows[some.chosen ?? 99].policy).toBe('coarser');
    const hopeless = await asked(texts(8), {
      candidates: candidates.slice(8),
      goal: { lose: 0.01 },
      start: replay(() => ({ same: false, kl: 1 })).start,
    });
    expect(hopeless).toMatchObject({ nearest: 0, failures: { lost: 4, dropped: 0 } });
    expect(hopeless.chosen).toBeUndefined();
  });
  it('drops what is shown to be worse, and sets aside what time does not allow', async () => {
    const candidates = Array.from({ length: 12 }, (_, i) => candidate(`p${i}`, 0.25)),
      outcomeOf = (_: number, i: number) => ({ same: i === 7, kl: i }),
      { start, ran } = replay(outcomeOf),
      choice = await asked(texts(80), { candidates, goal: budget, start });
    expect(choice.rows[0].policy).toBe('p7');
    expect(ran.length).toBeLessThan(20 * 12 + 40 * 8);
    const slow = replay(outcomeOf),
      hour = (work: ChoiceWork) => ({
        ...slow.start(work),
        run: async (job: ChoiceJob) => ({
          ...(await slow.start(work).run(job)),
          ms: { full: 3.6e6, candidates: 3.6e6 },
        }),
      }),
      hurried = await asked(texts(80), { candidates, goal: budget, start: hour, minutes: 1 });
    expect(hurried.left).toBeGreaterThan(0);
    expect(slow.ran.length).toBeLessThan(ran.length / 2);
  });
  it('drops no policy for answers that the full cache gets wrong too', async () => {
    // of 60 texts the full cache is right on one that is read last; p0 changes every wrong answer, and keeps that one
    const prompts = texts(60).map((one) => ({ ...one, answers: ['a'] })),
      last = splitPrompts(prompts, 0).choosing.at(-1)!,
      { start } = replay(
        (prompt, i) => ({
          same: i > 0 ? prompt !== last : prompt === last,
          kl: 1,
          right: Number(i === 0 && prompt === last),
        }),
        (prompt) => Number(prompt === last),
      ),
      candidates = [0, 1, 2, 3].map((i) => candidate(`p${i}`, 0.25)),
      { kind, rows } = await asked(prompts, { candidates, goal: budget, start });
    expect(kind).toBe('answers');
    expect(rows.find(({ policy }) => policy === 'p0')).toMatchObject({ prompts: 30, alive: true, loss: { mean: 0 } });
  });
  it('keeps a loss that equals the one that is allowed', () =>
    fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 19 }), async (lost) => {
        // a document with several prompts has a mean of fractions, which sums round
        const prompts = texts(40).flatMap((one) => [0, 1, 2].map((i) => ({ ...one, ids: [...one.ids, i] }))),
          { choosing } = splitPrompts(prompts, 0),
          bad = new Set(choosing.slice(0, 3 * lost).filter((_, i) => i % 3 === 0)),
          { start } = replay((prompt) => ({ same: !bad.has(prompt), kl: 0 })),
          { chosen } = await asked(prompts, {
            candidates: [candidate('p', 0.5)],
            level: 1 - 1e-9,
            goal: { lose: lost / 60 },
            start,
          });
        expect(chosen).toBe(0);
      }),
      { numRuns: 19 },
    ));
  it('goes on from no state of other code or another split', async () => {
    const options = { candidates: [candidate('p0', 0.25)], goal: budget, code: async () => ['a@1'] },
      { start } = replay(() => ({ same: true, kl: 0 }));
    let state: unknown;
    await asked(texts(8), { ...options, start, onProgress: (progress) => void ({ state } = progress) });
    const again = (more: Partial<ChooseOptions>) => asked(texts(8), { ...options, start, state, ...more });
    await expect(again({})).resolves.toMatchObject({ done: true });
    await expect(again({ code: async () => ['a@2'] })).rejects.toThrow('got those of other code: name another file');
    await expect(again({ seed: 1 })).rejects.toThrow('got those of other halves of the prompts (another seed');
  });
  it('goes on from its state, in plain JSON, to the same answer, and stops at a signal', async () => {
    const draw = random('state'),
      candidates = Array.from({ length: 5 }, (_, i) => candidate(`p${i}`, 0.25)),
      table = texts(20).map(() => candidates.map(() => ({ same: draw.next() < 0.5, kl: draw.next() }))),
      outcomeOf = (prompt: number, i: number) => table[prompt][i],
      options = { candidates, goal: budget, size: 2 },
      whole = replay(outcomeOf),
      { seconds: _, ...expected } = await asked(texts(20), { ...options, start: whole.start }),
      stop = new AbortController(),
      first = replay(outcomeOf);
    let state: unknown;
    const part = await asked(texts(20), {
      ...{ ...options, start: first.start, signal: stop.signal },
      onProgress(progress) {
        state = JSON.parse(JSON.stringify(progress.state));
        if (progress.done === 6) stop.abort();
      },
    });
    expect([part.done, part.chosen]).toEqual([false, 0]);
    const second = replay(outcomeOf),
      told: ChoiceProgress[] = [],
      { seconds: __, ...rest } = await asked(texts(20), {
        ...{ ...options, start: second.start, state },
        onProgress: (progress) => void told.push({ ...progress }),
      });
    expect(rest).toEqual(expected);
    expect(told[0]).toMatchObject({ phase: 'choosing', candidates: expect.any(Number) });
    for (const { texts: left, candidates: some, secondsLeft, round, rounds } of told) {
      expect(some > 0).toBe(left > 0);
      if (left > 0) expect(secondsLeft).toBeGreaterThanOrEqual(1);
      expect(round).toBeLessThanOrEqual(rounds);
    }
    expect(new Set([...first.ran, ...second.ran].map(String))).toEqual(new Set(whole.ran.map(String)));
    expect(second.ran.length).toBeLessThan(whole.ran.length);
    const other = asked(texts(19), { ...options, start: second.start, state });
    await expect(other).rejects.toThrow('state: expected results of this choice, got those of other prompts:');
  });
  it('waits for no runner once its signal is aborted, and stops each', async () => {
    const stop = new AbortController(),
      stopped: string[] = [],
      start = () => ({
        run: () => {
          setTimeout(() => stop.abort());
          return new Promise<never>(() => {});
        },
        stop: async () => stopped.push('one'),
      }),
      { done, rows } = await asked(texts(8), {
        ...{ candidates: [candidate('full', 1)], goal: budget, start, size: 2, signal: stop.signal },
      });
    expect([done, rows[0].loss, stopped]).toEqual([false, undefined, ['one', 'one']]);
  });
  it('takes no other value for its state', async () => {
    const options = { candidates: [candidate('full', 1)], goal: budget };
    let state: object = {};
    await asked(texts(2), {
      ...{ ...options, start: replay(() => ({ same: true, kl: 0 })).start },
      onProgress: (progress) => {
        ({ state } = progress);
      },
    });
    const hostile = fc.oneof(
      fc.jsonValue(),
      fc
        .tuple(
          fc.constantFrom('format', 'of', 'references', 'outcomes', 'refused', 'time', 'more'),
          fc.jsonValue({ maxDepth: 3 }),
        )
        .map(([field, value]) => ({ ...state, [field]: value })),
      fc
        .tuple(fc.nat(9), fc.nat(9))
        .map(([p, c]) => ({ ...state, outcomes: [[p + 2, c, { kl: 0, same: true, slots: 1, bytes: 1, ms: 1 }]] })),
    );
    await fc.assert(
      fc.asyncProperty(hostile, async (value) => {
        try {
          await asked(texts(2), { ...options, start: replay(() => ({ same: true, kl: 0 })).start, state: value });
        } catch (error) {
          expect((error as Error).message).toMatch(/^state: /);
        }
      }),
      { numRuns: 60 },
    );
  });
  it.each<[string, readonly ChoicePrompt[], string]>([
    ['one prompt', texts(1), 'prompts: expected at least two, one that chooses and one that confirms, got 1'],
    ['one document', texts(3).map((one) => ({ ...one, document: 'x' })), 'got 3 prompts of one'],
    [
      'the same prompt',
      texts(3).map((one) => ({ ...one, ids: [1] })),
      'prompts: expected different prompts, got the same one 3 times',
    ],
    [
      'a long prompt',
      [...texts(1), { document: 'x', ids: Array(5000).fill(1), origin: 'a.jsonl, line 2' }],
      'a.jsonl, line 2: expected a prompt that fits the 4096 tokens of embedded with an answer of 32, got 5000 tokens',
    ],
    [
      'an empty answer',
      [...texts(1), { document: 'x', ids: [9], answers: [''], origin: 'l' }],
      'l: expected answers with text, got an empty one',
    ],
  ])('refuses %s', async (_, prompts, message) => {
    await expect(asked(prompts, { candidates: [candidate('full', 1)], goal: budget })).rejects.toThrow(message);
  });
});

describe('a choice with a model', () => {
  it('stops within a text', async () => {
    const prompts = [0, 1].map((i) => ({ document: `d${i}`, ids: book.slice(400 * i, 400 * i + 400), origin: `${i}` })),
      options = {
        candidates: [candidate('h2o', 0.2)],
        goal: budget,
        answerTokens: 500,
        signal: AbortSignal.timeout(40),
      };
    expect((await asked(prompts, options)).done).toBe(false);
  });
  it('says whether questions came before the event, after it, or both', async () => {
    const of = async (apart: number): Promise<unknown> => {
      const prompts = Array.from(
        { length: 4 },
        (_, i): ChoicePrompt => ({
          ...{ document: `d${i}`, ids: book.slice(60 * i, 60 * i + 60), origin: `line ${i}` },
          ...(i < apart && { question: book.slice(300, 305) }),
        }),
      );
      return (await asked(prompts, { candidates: [candidate('streaming', 0.2)], goal: budget, answerTokens: 2 }))
        .prompts.question;
    };
    expect([await of(0), await of(2), await of(4)]).toEqual(['inside', 'both', 'after']);
  });
  it('prefers what keeps the answers, grades them, and says which candidates cannot run', async () => {
    const prompts = Array.from(
        { length: 6 },
        (_, i): ChoicePrompt => ({
          ...{ document: `d${i}`, ids: book.slice(60 * i, 60 * i + 60), origin: `line ${i}` },
        }),
      ),
      candidates = [
        candidate('streaming', 0.2),
        { ...candidate('streaming(sinks=40)', 0.1), budget: 8 },
        candidate('h2o', 1),
      ],
      choice = await asked(prompts, { candidates, goal: { lose: 0 }, answerTokens: 5 });
    expect(choice.rows[choice.chosen ?? 99]).toMatchObject({
      policy: 'h2o',
      confirmed: { mean: 0, n: 3 },
      kl: expect.closeTo(0, 3),
    });
    expect(choice.rows[0].bytes).toBe(choice.full.bytes);
    expect(choice.kind).toBe('same');
    expect(choice.rows.map(({ refused = '' }) => refused)).toEqual(['', '', expect.stringContaining('streaming')]);
    const answered = prompts.map((prompt) => ({ ...prompt, answers: ['7'], grader: 'number' as const }));
    await expect(asked(answered, { candidates, goal: budget, answerTokens: 1 })).rejects.toThrow(
      'prompts: expected answers that the grader number can read, got none in',
    );
  });
});

it('the choice runs in a page: nothing in its path is of Node', async () => {
  const { metafile } = await build({
    ...{
      entryPoints: [new URL('../src/choose.ts', import.meta.url).pathname],
      bundle: true,
      write: false,
      metafile: true,
    },
    ...{ format: 'esm', packages: 'external', platform: 'browser' },
  });
  const names = Object.values(metafile.outputs).flatMap(({ imports }) => imports.map(({ path }) => path));
  expect(names).toContain('@kv/models');
  expect(names.filter((name) => name.startsWith('node:') || name === '@kv/hub')).toEqual([]);
});

describe('wrong arguments are one sentence', () => {
  const good = { candidates: [candidate('p0', 0.25)], goal: { budget: '25%' } };
  it.each([
    ['goal', undefined],
    ['goal', 'lose'],
    ['goal', {}],
    ['goal', { lose: 0.01, budget: '25%' }],
    ['goal', { lose: '1%' }],
    ['goal', { lose: Number.NaN }],
    ['goal', { lose: -1 }],
    ['goal', { lose: 5 }],
    ['minutes', -1],
    ['minutes', '2'],
    ['minutes', Number.NaN],
    ['minuts', 2],
    ['size', 0],
    ['answerTokens', 0],
    ['level', 95],
    ['onProgress', 'log'],
    ['candidates', ['snapkv']],
    ['candidates', [null]],
  ])('%s: %s', async (name, value) => {
    const refused = asked(texts(8), { ...good, [name]: value } as unknown as ChooseOptions);
    await expect(refused).rejects.toThrow(KvError);
    await expect(refused).rejects.toThrow(/expected|has no option/);
  });
  it('prompts and models that are none', async () => {
    for (const prompts of [['text'], [{ prompt: 'a' }], [null]])
      await expect(asked(prompts as never, good as ChooseOptions)).rejects.toThrow(KvError);
    await expect(choose({} as never, texts(8), good as ChooseOptions)).rejects.toThrow(KvError);
  });
});

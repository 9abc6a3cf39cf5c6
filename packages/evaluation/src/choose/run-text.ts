import { budgetText, compile } from '@kv/core/engine';
import { KvError } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import type { Policy } from '@kv/core';
import { viewsActing } from '@kv/engine';
import { decodeTogether, freeObservations, greedy as likeliest, Sequence } from '@kv/models';
import type { CacheForm } from '@kv/models';
import { grade } from '@kv/tasks';
import { nextToken } from '../log-likelihood.ts';
import type { NextToken } from '../log-likelihood.ts';
import { partsOf } from '../grouped.ts';
import { mean, sum } from '../numbers.ts';
import { policyOf } from '../policies.ts';
import { greedy, retainedShare, rowsAlong, slotsNow, using } from '../sequences.ts';
import type { Bench } from '../subject.ts';
import type { Candidate, Outcome, Reference } from './candidate.ts';
import type { ChoicePrompt } from './prompts.ts';
import { bisect } from './statistics/bisect.ts';

/** What a runner needs to run the jobs of a choice. */
export interface ChoiceWork {
  readonly kind: 'choose';
  readonly prompts: readonly ChoicePrompt[];
  readonly candidates: readonly Candidate[];
  /** The longest answer of prompts that do not say their own. */
  readonly answerTokens: number;
}

/** A text that is read once, what is asked after it, and the candidates that are tried on it. */
export interface ChoiceJob {
  /** Prompts, by number, that read the same tokens. */
  readonly prompts: readonly number[];
  /** Candidates, by number: one, or those of one policy by ascending share, of which a few are run. */
  readonly ladders: readonly (readonly number[])[];
}

/** What came of a job. */
export interface ChoiceResult {
  /** How caches are stored. */
  readonly form: CacheForm;
  readonly references: readonly (readonly [prompt: number, reference: Reference])[];
  readonly outcomes: readonly (readonly [prompt: number, candidate: number, outcome: Outcome])[];
  /** Candidates that cannot run, and why. */
  readonly refused: readonly (readonly [candidate: number, why: string])[];
  /** Milliseconds of reading the text and of the full cache, and of all candidates. */
  readonly ms: { readonly full: number; readonly candidates: number };
}

/** The full cache's answer to a prompt, along which candidates are compared. */
interface Answered {
  readonly reference: Reference;
  readonly prompt: ChoicePrompt;
  readonly tokens: readonly number[];
  readonly maxNewTokens: number;
  readonly rows: readonly NextToken[];
}

/**
 * Runs a job. The text is read once, without evictions, while everything is recorded that any of the candidates reads:
 * each then evicts on a fork of that. A policy that acts while the prompt is read has a prefill of its own
 * (`sharesPrefill`).
 */
export async function runText(
  { model, names }: Bench,
  { prompts, candidates, answerTokens }: ChoiceWork,
  job: ChoiceJob,
): Promise<ChoiceResult> {
  const started = performance.now(),
    { ids } = prompts[job.prompts[0]],
    refused: (readonly [number, string])[] = [],
    outcomes: (readonly [number, number, Outcome])[] = [],
    policies = new Map<string, Policy>();
  for (const [first] of job.ladders) {
    const { policy } = candidates[first];
    policies.set(policy, await policyOf(policy, names, job.prompts[0]));
  }
  return using(new Sequence(model), async (whole) => {
    await whole.prefill(ids, { policies: [...policies.values()].filter((policy) => sharesPrefill(compile(policy))) });
    const reading = performance.now() - started,
      answered: Answered[] = [];
    for (const i of job.prompts)
      answered.push(await answeredBy(whole, prompts[i], prompts[i].answerTokens ?? answerTokens, reading));
    const read = performance.now(),
      ran = new Set<number>(),
      { ladders } = job;
    const found = await bisect(
      ladders.map(({ length }) => length),
      async (asked) => {
        const all: (readonly Outcome[])[] = [];
        for (const part of partsOf(asked, TOGETHER)) {
          const some = part.map(([ladder, rung]) => ladders[ladder][rung]);
          for (const [i, result] of (
            await outcomesOf(whole, answered, some, policies, candidates, reading)
          ).entries()) {
            if ('refused' in result) refused.push([some[i], result.refused]);
            else ran.add(some[i]);
            all.push('refused' in result ? [] : result);
          }
        }
        return all;
      },
      (some) =>
        some.length === 0
          ? Infinity
          : sum(some.map(({ same, right = 0 }, i) => Number(!same) + (answered[i].reference.right ?? 0) - right)),
    );
    for (const [l, rungs] of found.entries())
      for (const [rung, some] of rungs.entries()) {
        const candidate = ladders[l][rung];
        for (const [i, outcome] of some.entries())
          outcomes.push([job.prompts[i], candidate, ran.has(candidate) ? outcome : { ...outcome, inferred: true }]);
      }
    return {
      form: whole.memory.cache.form,
      references: answered.map(({ reference }, i) => [job.prompts[i], reference] as const),
      outcomes,
      refused,
      ms: { full: read - started, candidates: performance.now() - read },
    };
  });
}

/**
 * Whether a policy keeps on a fork of a shared prefill what it keeps when it evicts while the prompt is read: it neither
 * hides slots nor freezes tokens meanwhile, nor asks for blocks.
 */
export const sharesPrefill = (policy: CompiledPolicy): boolean =>
  viewsActing(policy, 'prefill').length === 0 &&
  policy.hooks('freeze').length === 0 &&
  policy.hooks('cadence').every(({ block }) => block === undefined);

/** Returns a copy that was asked the question of a prompt. */
async function asked(sequence: Sequence, { question = [] }: ChoicePrompt): Promise<Sequence> {
  const copy = sequence.fork();
  // no event follows, but of a cadence
  if (copy.active.policy.hooks('cadence').length === 0) freeObservations(copy);
  if (question.length > 0) await copy.append(question);
  return copy;
}

const graded = (
  text: string,
  { answers, grader = 'words', ...asked }: ChoicePrompt,
): { readonly right?: number; readonly parsed?: boolean } => {
  if (!answers) return {};
  const { score, parsed } = grade(text, { ...asked, answers, grader });
  return { right: score, parsed };
};

/** Answers a prompt with the full cache, greedily, and reads the answer once more in one pass, as candidates do. */
async function answeredBy(
  whole: Sequence,
  prompt: ChoicePrompt,
  maxNewTokens: number,
  reading: number,
): Promise<Answered> {
  const begun = performance.now();
  return using(await asked(whole, prompt), async (copy) => {
    const asking = performance.now() - begun;
    const { text, tokens } = await using(copy.fork(), async (answering) => {
      const { text, tokens, finish } = await greedy(answering, { maxNewTokens, stop: prompt.stop });
      return { text, tokens: finish === 'eos' ? [...tokens, await answering.next()] : tokens };
    });
    const rows: NextToken[] = [],
      started = performance.now();
    for await (const block of rowsAlong(copy, tokens, copy.active.policy)) rows.push(...block.map(nextToken));
    return {
      ...{ prompt, tokens, maxNewTokens, rows },
      reference: {
        tokens: tokens.length,
        ...graded(text, prompt),
        slots: slotsNow(whole),
        bytes: whole.memory.cache.liveBytes,
        ms: reading + asking + performance.now() - started,
      },
    };
  });
}

/** Candidates whose caches are held, and whose answers are generated, at once. */
const TOGETHER = 16;
/** How many times the predicted slots a policy may keep: texts differ in length, and some pieces force slots. */
const SLACK = 1.25;

/** What candidates do on each of the prompts of a text, or why one cannot run or keeps more than its budget. */
type OutcomesOrWhy = readonly Outcome[] | { readonly refused: string };

/** An outcome whose answer is not that of the full cache, and the cache that was asked. */
interface Changed {
  readonly candidate: number;
  readonly of: Answered;
  readonly outcome: Outcome & { right?: number };
  readonly sequence: Sequence;
}

/** Runs a few candidates, one after the other, then generates all answers that changed together. */
async function outcomesOf(
  whole: Sequence,
  answered: readonly Answered[],
  some: readonly number[],
  policies: ReadonlyMap<string, Policy>,
  candidates: readonly Candidate[],
  reading: number,
): Promise<readonly OutcomesOrWhy[]> {
  const changed: Changed[] = [],
    results = new Map<number, OutcomesOrWhy>();
  /** Leaves a candidate out that fails, and throws what is no sentence about it. */
  const refuse = (candidate: number, error: unknown): void => {
    if (!KvError.is(error)) throw error;
    results.set(candidate, { refused: error.message });
  };
  try {
    for (const candidate of some)
      try {
        const policy = policies.get(candidates[candidate].policy)!; // there for every ladder
        const onChanged = (of: Answered, outcome: Changed['outcome'], sequence: Sequence): void => {
          changed.push({ candidate, of, outcome, sequence });
        };
        results.set(
          candidate,
          await comparedOutcomes(whole, answered, policy, candidates[candidate], reading, onChanged),
        );
      } catch (error) {
        refuse(candidate, error);
      }
    for (const { prompt, maxNewTokens } of answered) {
      const those = changed.filter(
          ({ candidate, of }) => of.prompt === prompt && !('refused' in results.get(candidate)!),
        ),
        sequences = those.map(({ sequence }) => sequence),
        texts = await decodeTogether(sequences, { maxNewTokens, stop: prompt.stop });
      for (const [i, text] of texts.entries())
        if (text.status === 'rejected') refuse(those[i].candidate, text.reason);
        else those[i].outcome.right = graded(text.value.text, prompt).right!;
    }
    return some.map((candidate) => results.get(candidate)!);
  } finally {
    for (const { sequence } of changed) sequence.destroy();
  }
}

/**
 * Returns what a policy at a budget does on each of the prompts of a text. Answers that change are not generated yet:
 * `onChanged` takes their caches.
 * @throws KvError if it cannot run, or keeps more than its budget
 */
async function comparedOutcomes(
  whole: Sequence,
  answered: readonly Answered[],
  policy: Policy,
  { budget, share }: Candidate,
  reading: number,
  onChanged: (of: Answered, outcome: Changed['outcome'], sequence: Sequence) => void,
): Promise<readonly Outcome[]> {
  const started = performance.now(),
    compiled = compile(policy),
    shares = sharesPrefill(compiled);
  return using(shares ? whole.fork() : new Sequence(whole.model), async (cut) => {
    if (shares) await cut.evict(policy, budget);
    else await cut.prefill(answered[0].prompt.ids, { policy, budget });
    const event = performance.now() - started + (shares ? reading : 0),
      kept = cut.kept(),
      slots = slotsNow(cut),
      bytes = cut.memory.cache.liveBytes,
      outcomes: Outcome[] = [];
    if (slots > SLACK * share * answered[0].prompt.ids.length + 1)
      throw new KvError(
        'budget',
        `expected a policy that keeps ${budgetText(budget)} of ${answered[0].prompt.ids.length} tokens, got one that keeps ${Math.round(slots)} in a head`,
      );
    for (const of of answered) {
      const { prompt, tokens, rows, reference } = of,
        from = performance.now(),
        sequence = await asked(cut, prompt);
      let generates = false;
      try {
        const { kl, same } = await using(sequence.fork(), async (copy) => comparedAlong(copy, tokens, rows)),
          ms = event + performance.now() - from;
        generates = !same && prompt.answers !== undefined;
        const outcome: Changed['outcome'] = {
          ...{ kl, same, slots, bytes, ms },
          ...(reference.right !== undefined && { right: reference.right }), // the same tokens are the same text
          ...(prompt.answerAt && { held: retainedShare(kept, prompt.answerAt) }),
        };
        outcomes.push(outcome);
        if (generates) onChanged(of, outcome, sequence);
      } finally {
        if (!generates) sequence.destroy();
      }
    }
    return outcomes;
  });
}

/** Compares a cache with the full one along the full one's answer: a token that is not the likeliest is another answer. */
async function comparedAlong(
  sequence: Sequence,
  tokens: readonly number[],
  rows: readonly NextToken[],
): Promise<Pick<Outcome, 'kl' | 'same'>> {
  const nats: number[] = [];
  let same = true;
  for await (const block of rowsAlong(sequence, tokens, sequence.active.policy))
    for (const row of block) {
      const full = rows[nats.length];
      same &&= likeliest(row) === full.likeliest;
      nats.push(full.divergence(row));
    }
  return { kl: mean(nats), same };
}

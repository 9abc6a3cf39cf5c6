import { compile } from '@kv/core/engine';
import type { Policy } from '@kv/core';
import { Sequence } from '@kv/models';
import { answerRules, needle } from '@kv/tasks';
import type { Needle } from '@kv/tasks';
import { policyOf } from '../policies.ts';
import { greedy, retained, using } from '../sequences.ts';
import type { Kept } from '../sequences.ts';
import type { Bench, Subject } from '../subject.ts';
import type { AloneResult, Answer, NeedleResult, PromptResult } from './results.ts';
import { waysOf } from './settings.ts';
import type { Mode, NeedleJob, NeedleSettings, Way } from './settings.ts';

/** What a job needs that all jobs share. */
export interface NeedleBench extends Bench {
  readonly settings: NeedleSettings;
  readonly sentences: readonly string[];
}

/** Runs one job; policies that draw at random draw anew for every trial. */
export async function runJob(bench: NeedleBench, job: NeedleJob): Promise<NeedleResult> {
  const { settings, names, model, sentences } = bench;
  const policies = await Promise.all(settings.policies.map((text) => policyOf(text, names, job.trial)));
  const ways = waysOf(
    settings,
    policies.map((policy) => compile(policy)),
  );
  const prompt = promptOf(model, settings, sentences, job);
  return job.alone === undefined
    ? runPrompt(bench, job, prompt, policies, ways)
    : runAlone(bench, job.id, job.alone, prompt, policies, ways[job.alone]);
}

export const promptOf = (
  { tokenizer: { encode } }: Pick<Subject, 'tokenizer'>,
  { tokens, seed, form, asking, distractors }: NeedleSettings,
  sentences: readonly string[],
  { depth, trial }: NeedleJob,
): Needle =>
  needle({
    encode,
    sentences,
    tokens,
    depth,
    seed: `${seed}/${depth}/${trial}`,
    form: form !== 'both' ? form : trial % 2 === 0 ? 'code' : 'number',
    asking,
    distractors,
  });

const firstPart = ({ documentIds, questionIds }: Needle, mode: Mode): readonly number[] =>
  mode === 'aware' ? [...documentIds, ...questionIds] : documentIds;

/** One prefill a mode; every way evicts a fork of it, or in blocks has a prefill of its own. */
async function runPrompt(
  { model, settings }: NeedleBench,
  { id, depth, trial, example }: NeedleJob,
  prompt: Needle,
  policies: readonly Policy[],
  ways: readonly Way[],
): Promise<PromptResult> {
  const { document, question, documentIds, questionIds, offsets, valueTokens, value } = prompt,
    { layers, kvHeads } = model.config,
    outcomes: Answer[] = [],
    kept: string[] = [];
  for (const mode of settings.modes)
    await using(new Sequence(model), async (whole) => {
      const { block } = settings,
        ids = firstPart(prompt, mode);
      if (block === undefined) await whole.prefill(ids, { policies });
      for (const [way, { policy, budget, mode: asked, forced }] of ways.entries())
        if (asked === mode && forced === undefined)
          await using(block === undefined ? whole.fork() : new Sequence(model), async (fork) => {
            if (block === undefined) await fork.evict(policies[policy], budget ?? '100%');
            else await fork.prefill(ids, blockwise(policies[policy], budget, block));
            const held = retained(fork.kept(), valueTokens);
            if (mode === 'agnostic') await fork.append(questionIds);
            if (example) kept[way] = countsOf(fork.kept(), documentIds.length + questionIds.length);
            outcomes.push({ way, ...(await answer(fork, prompt, settings)), retained: held });
          });
    });
  const spans = model.tokenizer.encode(question, { special: false }).offsets;
  return {
    id,
    depth,
    trial,
    value,
    outcomes,
    ...(example && {
      example: {
        text: document + question,
        question,
        valueTokens,
        rows: layers * kvHeads,
        kept,
        offsets: [...offsets, ...spans.map(([from, to]) => [document.length + from, document.length + to] as const)],
      },
    }),
  };
}

async function answer(
  sequence: Sequence,
  { value }: Needle,
  { asking }: NeedleSettings,
): Promise<Pick<Answer, 'answer' | 'hit' | 'tokens' | 'ms'>> {
  const rule = answerRules[asking],
    started = performance.now();
  const { text, tokens } = await greedy(sequence, rule);
  const ms = performance.now() - started;
  return { answer: text, hit: rule.right(text, value), tokens: tokens.length, ms };
}

/** What evicts nothing passes in one block. */
const blockwise = (policy: Policy, budget: Way['budget'], block: number | undefined) => ({
  policy,
  budget,
  block: budget === undefined ? undefined : block,
});

/**
 * A run that evicts layer by layer as its prompt passes, as `kv run` does: forks of a shared prefill hold what other
 * policies want remembered.
 */
const runAlone = (
  { model, settings }: NeedleBench,
  id: string,
  way: number,
  prompt: Needle,
  policies: readonly Policy[],
  { policy, budget, mode }: Way,
): Promise<AloneResult> =>
  using(new Sequence(model), async (sequence) => {
    await sequence.prefill(firstPart(prompt, mode), blockwise(policies[policy], budget, settings.block));
    if (mode === 'agnostic') await sequence.append(prompt.questionIds);
    await answer(sequence, prompt, settings);
    const { meanDecode, live, peak } = sequence.bytes();
    return { id, way, mean: meanDecode || live, peak };
  });

/** How many rows hold each position, a byte each, base64. */
function countsOf(kept: Kept, length: number): string {
  const counts = new Uint8Array(length);
  for (const position of kept.flat(2)) if (position < length && counts[position] < 255) counts[position]++;
  return Buffer.from(counts).toString('base64');
}

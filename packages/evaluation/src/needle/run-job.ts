import type { Policy } from '@kv/core';
import { compile } from '@kv/core/engine';
import type { CompiledPolicy } from '@kv/core/engine';
import { joinedHeads, slotBytes, slotRows } from '@kv/engine';
import { Sequence, freeObservations } from '@kv/models';
import { answerRules, needle } from '@kv/tasks';
import type { Needle } from '@kv/tasks';
import { policyOf } from '../policies.ts';
import { greedy, retainedShare, using } from '../sequences.ts';
import type { KeptPositions } from '../sequences.ts';
import type { Bench, Subject } from '../subject.ts';
import { peakOf } from './peak.ts';
import type { NeedleAnswer, NeedleResult } from './results.ts';
import { armsOf } from './settings.ts';
import type { Mode, NeedleJob, NeedleSettings, NeedleArm } from './settings.ts';

/** Data shared by all jobs. */
export interface NeedleBench extends Bench {
  readonly settings: NeedleSettings;
  readonly sentences: readonly string[];
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

/**
 * Runs one job: one prefill per mode; every arm evicts, answers and is measured on a fork of it or, with `block`, on a
 * prefill of its own. Random policies draw new numbers for every trial.
 */
export async function runJob(bench: NeedleBench, job: NeedleJob): Promise<NeedleResult> {
  const { settings, names, model, sentences } = bench,
    { id, depth, trial, example } = job,
    policies = await Promise.all(settings.policies.map((text) => policyOf(text, names, trial))),
    compiled = policies.map((policy) => compile(policy)),
    arms = armsOf(settings, compiled, model.config),
    prompt = promptOf(model, settings, sentences, job);
  const { document, question, documentIds, questionIds, offsets, valueTokens, value } = prompt,
    outcomes: NeedleAnswer[] = [],
    kept: string[] = [];
  for (const mode of settings.modes)
    for (const cache of settings.cache)
      await using(new Sequence(model, undefined, { cache }), async (whole) => {
        const { block } = settings,
          ids = firstPart(prompt, mode),
          own = [...arms.entries()].filter(
            ([, one]) => one.mode === mode && one.cache === cache && one.forced === undefined,
          );
        if (block === undefined) await whole.prefill(ids, { policies });
        for (const [arm, { policy, budget }] of own)
          await using(block === undefined ? whole.fork() : new Sequence(model, undefined, { cache }), async (fork) => {
            if (block === undefined) await fork.evict(policies[policy], budget ?? '100%');
            else await fork.prefill(ids, blockwise(policies[policy], budget, block));
            const held = retainedShare(fork.kept(), valueTokens),
              peak = block === undefined ? peakOfFork(whole, fork, compiled[policy]) : fork.memory.ledger.bytes().peak;
            if (mode === 'agnostic') await fork.append(questionIds);
            if (example) kept[arm] = countsOf(fork.kept(), documentIds.length + questionIds.length);
            outcomes.push({ arm, ...(await answer(fork, prompt, settings)), retained: held, ...bytesOf(fork, peak) });
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
        rows: slotRows(model.config),
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
): Promise<Pick<NeedleAnswer, 'answer' | 'hit' | 'tokens' | 'ms'>> {
  // frees observations that only events read, as `kv run` does
  if ((sequence.active.policy.hooks('cadence')[0]?.every ?? 0) === 0) freeObservations(sequence);
  const rule = answerRules[asking],
    started = performance.now();
  const { text, tokens } = await greedy(sequence, rule);
  const ms = performance.now() - started;
  return { answer: text, hit: rule.right(text, value), tokens: tokens.length, ms };
}

const slotsOf = (sequence: Sequence): number[][] => sequence.kept().map((heads) => heads.map(({ length }) => length));

/** @see peakOf */
function peakOfFork(whole: Sequence, fork: Sequence, policy: CompiledPolicy): number {
  const slots = slotsOf(whole),
    { form, liveBytes } = whole.memory.cache,
    { config } = whole.model,
    // by the width of heads, of which layers may have several
    widths = joinedHeads(config).map(({ headDim }) => slotBytes(form, headDim)),
    stored = liveBytes / slots.flatMap((heads, l) => heads.map((n) => n * widths[l])).reduce((a, b) => a + b, 0);
  return peakOf(policy, config, whole.progress.length, {
    ...{ whole: slots, cut: slotsOf(fork), slotBytes: (l: number) => stored * widths[l], form },
  });
}
/** Returns the mean while answering, and the peak at any time, since a long answer may exceed the prompt's. */
function bytesOf(fork: Sequence, peak: number): Pick<NeedleAnswer, 'mean' | 'peak'> {
  const { meanDecode, live } = fork.memory.ledger.bytes();
  return { mean: meanDecode || live, peak: Math.max(peak, live) };
}

/** Options of prefill; a policy that evicts nothing needs no blocks. */
const blockwise = (policy: Policy, budget: NeedleArm['budget'], block: number | undefined) => ({
  policy,
  budget,
  block: budget === undefined ? undefined : block,
});

/** Returns the number of rows that hold each position, one byte each, base64. */
function countsOf(kept: KeptPositions, length: number): string {
  const counts = new Uint8Array(length);
  for (const position of kept.flat(2)) if (position < length && counts[position] < 255) counts[position]++;
  return Buffer.from(counts).toString('base64');
}

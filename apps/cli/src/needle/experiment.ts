import { compile } from '@kv/core';
import type { Policy } from '@kv/core';
import { decode, Sequence } from '@kv/models';
import type { Model } from '@kv/models';
import { answerRules, needle } from '@kv/tasks';
import type { AnswerRule, Needle, NeedleForm } from '@kv/tasks';
import { resolvePolicy } from '../policy/resolve-policy.ts';
import type { AloneResult, Outcome, PromptResult, Result } from './results.ts';
import { waysOf } from './settings.ts';
import type { Job, Mode, Settings, Way } from './settings.ts';

/** What a job needs that all jobs share. */
export interface Bench {
  readonly model: Model;
  readonly settings: Settings;
  readonly sentences: readonly string[];
  readonly cwd: string;
}

/** Runs one job; policies that draw at random draw anew for every trial. */
export async function runJob(bench: Bench, job: Job): Promise<Result> {
  const { settings, cwd } = bench;
  const policies = await Promise.all(settings.policies.map((text) => resolvePolicy(text, { cwd, seed: job.trial })));
  const ways = waysOf(
    settings,
    policies.map((policy) => compile(policy).evicts),
  );
  const prompt = promptOf(bench, job);
  return job.alone === undefined
    ? runPrompt(bench, job, prompt, policies, ways)
    : runAlone(bench, job, prompt, policies, ways[job.alone]);
}

type PromptSource = Pick<Bench, 'settings' | 'sentences'> & { readonly model: Pick<Model, 'tokenizer'> };

export function promptOf(
  { model, settings: { tokens, seed, form, asking, distractors }, sentences }: PromptSource,
  { depth, trial }: Job,
): Needle {
  const drawn: NeedleForm = form === 'both' ? (trial % 2 === 0 ? 'code' : 'number') : form;
  return needle({
    encode: model.tokenizer.encode,
    sentences,
    tokens,
    depth,
    seed: `${seed}/${depth}/${trial}`,
    form: drawn,
    asking,
    distractors,
  });
}

const firstPart = ({ documentIds, questionIds }: Needle, mode: Mode): readonly number[] =>
  mode === 'aware' ? [...documentIds, ...questionIds] : documentIds;

/** One prefill a mode; every way evicts a fork of it. */
async function runPrompt(
  { model, settings }: Bench,
  { id, depth, trial, example }: Job,
  prompt: Needle,
  policies: readonly Policy[],
  ways: readonly Way[],
): Promise<PromptResult> {
  const outcomes: Outcome[] = [],
    kept: string[] = [];
  for (const mode of settings.modes) {
    const whole = new Sequence(model);
    try {
      await whole.prefill(firstPart(prompt, mode), { policies });
      for (const [way, { policy, budget, mode: asked }] of ways.entries()) {
        if (asked !== mode) continue;
        const fork = whole.fork();
        try {
          await fork.evict(policies[policy], budget ?? '100%');
          const cache = fork.kept();
          if (mode === 'agnostic') await fork.append(prompt.questionIds);
          if (example) kept[way] = countsOf(fork.kept(), prompt.documentIds.length + prompt.questionIds.length);
          outcomes.push({
            way,
            ...(await answer(fork, prompt, answerRules[settings.asking])),
            retained: retained(cache, prompt.valueTokens),
          });
        } finally {
          fork.destroy();
        }
      }
    } finally {
      whole.destroy();
    }
  }
  const { document, question, offsets, valueTokens, value } = prompt;
  const { layers, kvHeads } = model.config;
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
        offsets: [
          ...offsets,
          ...model.tokenizer
            .encode(question, { special: false })
            .offsets.map(([from, to]) => [document.length + from, document.length + to] as const),
        ],
      },
    }),
  };
}

async function answer(
  sequence: Sequence,
  { value }: Needle,
  { newTokens, stop, right }: AnswerRule,
): Promise<Pick<Outcome, 'answer' | 'hit' | 'tokens' | 'ms'>> {
  let text = '',
    tokens = 0;
  const started = performance.now();
  for await (const chunk of decode(sequence, { maxNewTokens: newTokens, stop })) {
    text += chunk.text;
    if (chunk.token !== undefined) tokens++;
  }
  const ms = performance.now() - started;
  return { answer: text, hit: right(text, value), tokens, ms };
}

/**
 * A run that evicts layer by layer as its prompt passes, as `kv run` does: forks of a shared prefill hold what other
 * policies want remembered.
 */
async function runAlone(
  { model, settings }: Bench,
  { id, alone }: Job,
  prompt: Needle,
  policies: readonly Policy[],
  { policy, budget, mode }: Way,
): Promise<AloneResult> {
  const sequence = new Sequence(model);
  try {
    await sequence.prefill(firstPart(prompt, mode), { policy: policies[policy], budget });
    if (mode === 'agnostic') await sequence.append(prompt.questionIds);
    await answer(sequence, prompt, answerRules[settings.asking]);
    const { meanDecode, live, peak } = sequence.bytes();
    return { id, way: alone!, mean: meanDecode || live, peak };
  } finally {
    sequence.destroy();
  }
}

/** Share of the rows that hold every one of these positions. */
export function retained(kept: readonly (readonly (readonly number[])[])[], positions: readonly number[]): number {
  const rows = kept.flat().map((row) => new Set(row));
  return rows.filter((row) => positions.every((position) => row.has(position))).length / rows.length;
}

/** How many rows hold each position, a byte each, base64. */
function countsOf(kept: readonly (readonly (readonly number[])[])[], length: number): string {
  const counts = new Uint8Array(length);
  for (const position of kept.flat(2)) if (position < length && counts[position] < 255) counts[position]++;
  return Buffer.from(counts).toString('base64');
}

import type { SAMPLING } from '../src/sampling/options.ts';
import type { ResolvedOptions } from '@kv/core';

/** What a step reads besides the scores. */
export interface Draws {
  readonly options: ResolvedOptions<typeof SAMPLING>;
  readonly prompt: readonly number[];
  readonly answer: readonly number[];
  /** Ids that may come; undefined: all. */
  readonly allowed: ReadonlySet<number> | undefined;
}
type Step = (scores: readonly number[], by: Draws) => number[];

const probabilities = (scores: readonly number[]): number[] => {
  const max = Math.max(...scores),
    weights = scores.map((x) => Math.exp(x - max)),
    all = weights.reduce((a, b) => a + b);
  return weights.map((w) => w / all);
};
/** Ids by descending score, the lower id first among equals. */
const sorted = (scores: readonly number[]): number[] =>
  scores.map((_, id) => id).sort((a, b) => scores[b] - scores[a] || a - b);
const only = (scores: readonly number[], keep: (id: number) => boolean): number[] =>
  scores.map((x, id) => (keep(id) ? x : -Infinity));

/** The steps in float64, each written from transformers' processors, frequency and presence from OpenAI's formula. */
export const STEPS = {
  mask: (scores, { allowed }) => only(scores, (id) => allowed?.has(id) ?? true),
  bias: (scores, { options: { logitBias } }) => scores.map((x, id) => x + (logitBias?.[id] ?? 0)),
  repetition: (scores, { options: { repetitionPenalty: p }, prompt, answer }) =>
    scores.map((x, id) => (![...prompt, ...answer].includes(id) ? x : x < 0 ? x * p : x / p)),
  counts: (scores, { options: { frequencyPenalty, presencePenalty }, answer }) =>
    scores.map((x, id) => {
      const count = answer.filter((other) => other === id).length;
      return x - count * frequencyPenalty - (count > 0 ? 1 : 0) * presencePenalty;
    }),
  temperature: (scores, { options: { temperature } }) =>
    temperature === 0
      ? scores.map((_, id) => (id === sorted(scores)[0] ? 0 : -Infinity))
      : scores.map((x) => x / temperature),
  topK: (scores, { options: { topK } }) => {
    const kept = new Set(sorted(scores).slice(0, topK || scores.length));
    return only(scores, (id) => kept.has(id));
  },
  topP: (scores, { options: { topP } }) => {
    const p = probabilities(scores),
      kept = new Set<number>();
    let above = 0;
    for (const id of sorted(scores)) {
      if (Math.abs(above - topP) < 1e-9 && topP < 1) throw new OnTheEdge();
      if (kept.size > 0 && above >= topP) break;
      kept.add(id);
      above += p[id];
    }
    return topP < 1 ? only(scores, (id) => kept.has(id)) : [...scores];
  },
  minP: (scores, { options: { minP } }) => {
    const p = probabilities(scores),
      least = minP * Math.max(...p);
    if (p.some((x) => minP > 0 && x > 0 && Math.abs(x / least - 1) < 1e-9 && x !== Math.max(...p)))
      throw new OnTheEdge();
    return only(scores, (id) => p[id] >= least);
  },
} satisfies Record<string, Step>;
export type StepName = keyof typeof STEPS;

/** A case in which rounding decides, which no test can tell. */
export class OnTheEdge extends Error {}

export const ORDER: readonly StepName[] = [
  ...(['mask', 'bias', 'repetition', 'counts', 'temperature', 'topK', 'topP', 'minP'] as const),
];

/** The probability of each id. */
export const oracle = (
  logits: ArrayLike<number>,
  by: Draws,
  order: readonly StepName[] = ORDER,
  steps: Readonly<Record<StepName, Step>> = STEPS,
): readonly number[] => probabilities(order.reduce((scores, name) => steps[name](scores, by), [...Array.from(logits)]));

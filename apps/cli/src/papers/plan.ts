import { alpha } from './rows/alpha.ts';
import { caote } from './rows/caote.ts';
import { crystalcache } from './rows/crystalcache.ts';
import { prhs } from './rows/prhs.ts';
import { ta } from './rows/ta.ts';
import type { Plan } from './types.ts';

const rules: readonly string[] = [
  'Every arm of a contrast is run on the same prompts; the difference is paired by prompt and positive in the promised direction.',
  'The interval is a percentile bootstrap over prompts, 10,000 resamples, at 1 - 0.05 / contrasts of the row; p is exact McNemar for right and wrong answers and the bootstrap otherwise; shares of answers have Wilson intervals, 95 %.',
  'Held: the whole interval lies above the threshold. Not: none of it does. Undecided: it lies across.',
  'Undecided as well: mean caches over decoding more than 5 % apart; where it would be not, both arms at most 5 % or at least 95 %; for answers, the full cache below 50 %.',
  'A row holds if all of its contrasts hold, and does not if one does not. signs: it holds if every difference points as promised, and does not if an interval lies wholly on the other side. shrink: the best arm on the first 50 prompts, its gain there less its gain on the others, 95 %.',
  'Prompts come from the seed; prose is the last 70 % of the book, the first 30 % is for development, which used seeds 1 to 4 and 2 to 8 prompts a task.',
  'Rows that measure time run while nothing else does; fewer than 200 prompts are screening.',
];

const tasks: Plan['tasks'] = {
  'code-agnostic': { kind: 'needle', tokens: 512, mode: 'agnostic', form: 'code' },
  'code-aware': { kind: 'needle', tokens: 512, mode: 'aware', form: 'code' },
  decoys: { kind: 'needle', tokens: 512, mode: 'agnostic', form: 'code', distractors: 5 },
  'tool-call': { kind: 'credential', tokens: 512, values: 1 },
  'three-credentials': { kind: 'credential', tokens: 512, values: 3 },
  'needle-prose': { kind: 'needle', tokens: 512, mode: 'aware', form: 'number' },
  'needle-filler': { kind: 'needle', tokens: 512, mode: 'aware', form: 'number', filler: true },
  'association-high': { kind: 'association', tokens: 512, density: 'high' },
  'association-low': { kind: 'association', tokens: 512, density: 'low' },
  'prose-at-16': { kind: 'continuation', context: 256, follow: 64, every: 4 },
  'prose-blocks': { kind: 'continuation', context: 512, follow: 128, block: 128 },
  prose: { kind: 'continuation', context: 512, follow: 128 },
  'prose-steps': { kind: 'continuation', context: 448, follow: 64, every: 64 },
  'prose-prefill': { kind: 'prompt', tokens: 512 },
  'caote-ranks': { kind: 'ranks', tokens: 512, with: 'h2oFastCaote' },
  costs: { kind: 'costs', tokens: 1024, follow: 16 },
  'costs-every': { kind: 'costs', tokens: 512, follow: 32, every: 1 },
};

/** The first plan: every row of papers.md, in its order. */
export const first: Plan = { seed: 6021, rules, tasks, rows: [...ta, ...caote, ...crystalcache, ...alpha, ...prhs] };

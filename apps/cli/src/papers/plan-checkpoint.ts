import { first } from './plan.ts';
import { checkpoint as rows } from './rows/checkpoint.ts';
import type { Plan } from './types.ts';

/**
 * The third plan: what fits a small checkpoint and minutes of a CPU. Made for SmolLM2-135M-Instruct, and the same for
 * any other.
 */
export const checkpoint: Plan = {
  seed: 6023,
  rules: [
    ...first.rules.slice(0, 5),
    'Prompts come from the seed; prose is the last 70 % of the book; development used seed 1, the first 30 % of the book, and 2 or 3 prompts a task, on SmolLM2-135M-Instruct.',
    'Values are asked for by a question and the beginning of its answer; an arm that gives the tokens of a right answer of the full cache as the likeliest ones, fed as one block, is right, every other one is asked token by token. Its mean cache is that before the answer and half of the longest answer.',
    'Under a view the mean cache is what a query of a head sees, on average. Rows that measure time run while nothing else does. All rows have fewer than 200 prompts: screening.',
  ],
  tasks: {
    'code-agnostic': { kind: 'needle', tokens: 1024, mode: 'agnostic', form: 'code', asking: 'begun' },
    'code-aware': { kind: 'needle', tokens: 1024, mode: 'aware', form: 'code', asking: 'begun' },
    decoys: { kind: 'needle', tokens: 1024, mode: 'aware', form: 'code', distractors: 5, asking: 'begun' },
    'tool-call': { kind: 'credential', tokens: 1024, values: 1, asking: 'begun' },
    'three-credentials': { kind: 'credential', tokens: 1024, values: 3, asking: 'begun' },
    'number-aware': { kind: 'needle', tokens: 1024, mode: 'aware', form: 'number', asking: 'begun' },
    'association-high': { kind: 'association', tokens: 1024, density: 'high', framed: true, asking: 'begun' },
    'association-low': { kind: 'association', tokens: 1024, density: 'low', framed: true, asking: 'begun' },
    'prose-at-16': { kind: 'continuation', context: 256, follow: 64, every: 4 },
    'prose-blocks': { kind: 'continuation', context: 512, follow: 128, block: 128 },
    prose: { kind: 'continuation', context: 512, follow: 128 },
    'prose-steps': { kind: 'continuation', context: 448, follow: 32, every: 32, witnessed: true },
    'prose-prefill': { kind: 'prompt', tokens: 512 },
    'caote-ranks': { kind: 'ranks', tokens: 512, with: 'h2oFastCaote' },
    costs: { kind: 'costs', tokens: 1024, follow: 16 },
    'costs-every': { kind: 'costs', tokens: 512, follow: 32, every: 1 },
  },
  rows,
  on: 'real',
};

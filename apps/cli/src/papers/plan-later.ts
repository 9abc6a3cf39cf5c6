import { first } from './plan.ts';
import { later as rows } from './rows/later.ts';
import type { Plan } from './types.ts';

/** The second plan: what the first had no piece for, and what it did not ask as the paper does. */
export const later: Plan = {
  seed: 6022,
  rules: [
    ...first.rules.slice(0, 5),
    'Prompts come from the seed; prose is the last 40 % of the book, of which the sharing rows of the first plan read nothing; development used seed 1, the first 30 % of the book, and 8 prompts a task.',
    'Under a view the mean cache is what a query of a head sees, on average; fewer than 200 prompts are screening.',
  ],
  tasks: {
    'code-agnostic': { kind: 'needle', tokens: 512, mode: 'agnostic', form: 'code' },
    'code-aware': { kind: 'needle', tokens: 512, mode: 'aware', form: 'code' },
    'number-aware': { kind: 'needle', tokens: 512, mode: 'aware', form: 'number' },
    'tool-call': { kind: 'credential', tokens: 512, values: 1 },
    'association-high': { kind: 'association', tokens: 512, density: 'high', framed: true },
    'association-low': { kind: 'association', tokens: 512, density: 'low', framed: true },
    'prose-steps': { kind: 'continuation', context: 448, follow: 64, every: 64, witnessed: true },
  },
  rows,
  prose: [0.6, 1],
  on: 'embedded',
};

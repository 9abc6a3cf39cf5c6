import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readProtocol } from '../src/index.ts';
import type { LoadedPlan } from '../src/index.ts';
import { folder } from './folder.ts';

/** Twelve problems, on both sides of the split. */
export const problems = Array.from({ length: 12 }, (_, i) => ({
  id: `p/${i}`,
  context: `${'Some words stand here. '.repeat(6)}The number is ${i}.`,
  question: ' The number is',
  answer: String(i),
  maxNewTokens: 6,
}));

/** What plans of these tests have in common: two models and one budget. */
export const common = {
  tasks: 'problems.json',
  models: [
    { name: 'one', model: 'one.gguf', role: 'primary' },
    { name: 'two', model: 'two.gguf', role: 'second' },
  ],
  budgets: [24],
};

/** Writes a plan with its problems into a folder, and reads it; `change` replaces fields. */
export const planWriter =
  (plan: object) =>
  (change: object = {}, rows: unknown = problems): LoadedPlan => {
    const into = folder();
    writeFileSync(join(into, 'problems.json'), JSON.stringify(rows));
    writeFileSync(join(into, 'plan.json'), JSON.stringify({ ...plan, ...change }));
    return readProtocol(join(into, 'plan.json'), 'plan.json');
  };

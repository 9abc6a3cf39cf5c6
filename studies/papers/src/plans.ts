import { readFileSync } from 'node:fs';
import { KvError } from '@kv/core';
import type { Kind, Plan } from './types.ts';

/**
 * `1`: every row of the papers. `2`: pieces that came after it, on the embedded model. `3`: any checkpoint. `4`: tables
 * that papers.md leaves out, and what the review of the first three asked for. `5`: rows of the fourth that found too
 * little text, for a longer one, and likely causes of what did not hold. `6`, a checkpoint, and `7`, the embedded model:
 * claims that were asked unfairly, asked again with lengths scaled to the context. `8`: the embedded model, facts that no
 * protected position holds. `9`, a checkpoint: what CIS compares, CAOTE's joint error and its needles, block by block and
 * with prompts enough for a verdict. `10`, either kind: rows that a later reading found asked otherwise than printed;
 * `11`: those of them again whose policies left an option to what plans of before took it to be.
 */
export const planNames = ['1', '2', '3', '4', '5', '6', '7', '8', '9', '10', '11'] as const;
export type PlanName = (typeof planNames)[number];

/** Folder of the plans, relative to this file or to the bundle, `dist/bin.js` of the studies. */
const PLANS = import.meta.url.endsWith('.ts') ? '../plans' : '../papers/plans';

/** Returns the text of a plan: each was committed before its prompts were run, and none changes after that. */
export const planText = (name: PlanName): string =>
  readFileSync(new URL(`${PLANS}/${name}.json`, import.meta.url), 'utf8');

/** Returns a plan as an object. */
export function planOf(name: PlanName): Plan {
  const { digest: _, ...plan } = JSON.parse(planText(name)) as Plan & { readonly digest: string };
  return plan;
}

/** Returns the default plan of a kind of model. */
export const usualPlan = (kind: Kind): PlanName => (kind === 'embedded' ? '1' : '3');

/** Returns the plan of this name for this kind of model. @throws KvError if it is for the other kind */
export function planFor(name: PlanName, kind: Kind): Plan {
  const fits = (other: PlanName): boolean => (planOf(other).on ?? kind) === kind;
  if (fits(name)) return planOf(name);
  const models: Readonly<Record<Kind, string>> = { embedded: 'the embedded model', real: 'a checkpoint' };
  throw new KvError(
    'plan',
    `expected ${planNames.filter(fits).join(' or ')} for ${models[kind]}, got ${name}, whose rows are for ${models[kind === 'real' ? 'embedded' : 'real']}`,
  );
}

import { KvError } from '@kv/core';
import { digest } from '../needle/store.ts';
import { checkpoint } from './plan-checkpoint.ts';
import { later } from './plan-later.ts';
import { first } from './plan.ts';
import type { Kind, Plan } from './types.ts';

/**
 * Every plan under the name that `--plan` takes; each was committed before its prompts were run, and none changes after
 * that.
 */
export type PlanName = '1' | '2' | '3';
export const PLANS: Readonly<Record<PlanName, Plan>> = { 1: first, 2: later, 3: checkpoint };
export const PLAN_NAMES = Object.keys(PLANS) as readonly PlanName[];

/** The plan of a kind of model where none is asked for. */
export const usual = (kind: Kind): PlanName => (kind === 'embedded' ? '1' : '3');
/** What is printed as the plan, and committed. */
export const planJson = (plan: Plan): string => `${JSON.stringify({ digest: digest(plan), ...plan }, undefined, 2)}\n`;

/** The plan of this name for this kind of model. @throws KvError where it is for the other */
export function planFor(name: PlanName, kind: Kind): Plan {
  const plan = PLANS[name];
  if ((plan.on ?? kind) === kind) return plan;
  const others = PLAN_NAMES.filter((other) => (PLANS[other].on ?? kind) === kind);
  throw new KvError(
    '--plan',
    `expected ${others.join(' or ')} for ${kind === 'embedded' ? 'the embedded model' : 'a checkpoint'}, got ${name}, whose rows are for ${plan.on === 'embedded' ? 'the embedded model' : 'a checkpoint'}`,
  );
}

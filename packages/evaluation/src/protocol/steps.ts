import { KvError } from '@kv/core';
import { cellsOf } from '../cells/experiment.ts';
import { rebudget } from '../cells/rebudget.ts';
import type { Cell, CellResult } from '../cells/types.ts';
import { digest } from '../jobs/store.ts';
import { mean } from '../numbers.ts';
import type { Naming } from '../policies.ts';
import type { Ledger } from './ledger.ts';
import { branchMeanings } from './help.ts';
import type { Confirmed, ConfirmOutcome, Probed, ProbeOutcome } from './outcomes.ts';
import { standing } from '../standing.ts';
import { candidateAt } from './plan.ts';
import type { Protocolled } from './plan.ts';
import { armSummary, chosenLambda, confirmCells, decide } from './statistics.ts';
import type { ArmSummary, Decision } from './statistics.ts';

/** The name of the one task of a plan. */
export const TASK = 'problems';

/** What answers: a model by its name in the plan. */
export interface Bed extends Pick<Naming, 'names'> {
  /** What names a model's weights, and what runs it. */
  readonly identity: (model: string) => Promise<string>;
  readonly run: (model: string, cells: readonly Cell[]) => Promise<readonly CellResult[]>;
}

/**
 * Every weight on ids to choose on, at the base's mean cache.
 * @throws KvError for a problem that was confirmed on before, under whatever id
 */
export async function probe(
  { plan, texts, hash }: Protocolled,
  ids: readonly string[],
  { names, run }: Bed,
  ledger: Ledger,
): Promise<ProbeOutcome> {
  const held = new Set(ledger.looks(ids.map((id) => texts.get(id)!)).flatMap((look) => look.texts)),
    looked = ids.find((id) => held.has(texts.get(id)!));
  if (looked !== undefined)
    throw new KvError(
      'probe',
      `expected problems to choose on alone, got ${JSON.stringify(looked.slice(0, 80))}, which says what one that was confirmed on says`,
    );
  const problems = ids.map((id) => ({ task: TASK, id })),
    answers = async (model: string, policy: string, budget: number): Promise<readonly CellResult[]> =>
      run(model, await cellsOf([{ policy, budgets: [budget] }], problems, plan.seeds.slice(0, 1), names));
  const cells: ProbeOutcome['cells'][number][] = [];
  for (const { name: model } of plan.models)
    for (const budget of plan.budgets) {
      const base = armSummary(await answers(model, plan.base, budget)),
        arms: Probed[] = [];
      for (const lambda of plan.lambdas) {
        const policy = candidateAt(plan, lambda),
          at = async (slots: number): Promise<ArmSummary> => armSummary(await answers(model, policy, slots)),
          found = await rebudget(base.meanSlots, budget, plan.within, async (slots) => (await at(slots)).meanSlots),
          summary = await at(found.budget); // known already
        arms.push({
          lambda,
          slots: found.budget,
          matched: found.matched,
          gain: summary.accuracy - base.accuracy,
          ...summary,
        });
      }
      cells.push({ model, budget, base, arms });
    }
  const gains = plan.lambdas.map((lambda, i) => ({ lambda, gain: mean(cells.map(({ arms }) => arms[i].gain)) })),
    outcome = { plan: hash, ids: ids.length, lambda: chosenLambda(gains), gains, cells };
  ledger.add({ kind: 'probe', probe: outcome });
  return outcome;
}

/**
 * The chosen weight on ids to confirm on, which is run and written once; asked for again, what was written is told with
 * the number of this look. A look after the first, by any plan at any of these problems, is no confirmation.
 * @throws KvError before a probe
 */
export async function confirm(
  { plan, hash, texts, confirm: ids }: Protocolled,
  { names, identity, run }: Bed,
  ledger: Ledger,
): Promise<Confirmed> {
  const probed = ledger.probed(hash);
  if (!probed)
    throw new KvError('confirm', `expected a probe of this plan (${hash}) before, got none: run kv protocol probe`);
  const { lambda, cells } = probed,
    slots = cells.map(({ arms }) => arms.find((arm) => arm.lambda === lambda)!.slots), // the probe has all weights
    identities = await Promise.all(plan.models.map(({ name }) => identity(name))),
    config = digest({ hash, lambda, slots, identities }),
    written = ledger.confirmed(hash, config),
    // what a kill left begun is this look, not one before it
    before = ledger.looks().filter((look) => written || look.config !== config),
    look = before.length + 1,
    held = new Set(before.flatMap((one) => one.texts)),
    seen = ids.filter((id) => held.has(texts.get(id)!)).length,
    verdict = `${lookText(look)}${look > 1 ? `; ${seen} of these ${ids.length} problems were looked at before` : ''}`;
  if (written) {
    ledger.add({ kind: 'again', config });
    return { verdict, ...written, look, seen };
  }
  if (!ledger.begun(config)) ledger.add({ kind: 'begun', config });
  const problems = ids.map((id) => ({ task: TASK, id })),
    sampled = [];
  for (const [i, { model, budget }] of cells.entries()) {
    const answers = async (policy: string, at: number): Promise<readonly CellResult[]> =>
      run(model, await cellsOf([{ policy, budgets: [at] }], problems, plan.seeds, names));
    sampled.push({
      model,
      role: plan.models.find(({ name }) => name === model)!.role, // the probe asked the plan's models
      budget,
      candidateBudget: slots[i],
      base: await answers(plan.base, budget),
      candidate: await answers(candidateAt(plan, lambda), slots[i]),
    });
  }
  const outcome = {
    plan: hash,
    config,
    look,
    lambda,
    ids: ids.length,
    seeds: plan.seeds,
    cells: confirmCells(sampled, plan.within),
  };
  ledger.add({ kind: 'confirm', confirm: outcome });
  return { verdict, ...outcome, seen };
}

/** What a look at ids to confirm on is worth. */
const lookText = (look: number): string => `${look > 1 ? 'not a confirmation: ' : ''}look ${look} at these ids`;

interface Branched extends Decision, Pick<ConfirmOutcome, 'config' | 'lambda' | 'ids'> {
  /** The branch and its meaning, after what makes it no confirmation. */
  readonly verdict: string;
  readonly standing: ReturnType<typeof standing>;
  /** How many of them `passed` is a part of. */
  readonly cells: number;
  readonly looks: number;
}

/** The branch that a plan's newest confirmation comes to. @throws KvError before one */
export function branch({ hash }: Protocolled, ledger: Ledger): Branched {
  const confirmed = ledger.confirmed(hash);
  if (!confirmed)
    throw new KvError(
      'branch',
      `expected a confirmation of this plan (${hash}) before, got none: run kv protocol confirm`,
    );
  const { config, lambda, ids, cells } = confirmed,
    decision = decide(cells),
    looks = ledger.looks().length,
    verdict = `${looks > 1 ? `${lookText(looks)}; ` : ''}branch ${decision.branch}: ${branchMeanings[decision.branch]}`;
  return { verdict, ...decision, cells: cells.length, ids, standing: standing(ids), config, lambda, looks };
}

import { KvError } from '@kv/core';
import { cellsOf } from '../cells/experiment.ts';
import { rebudget } from '../cells/rebudget.ts';
import type { Cell, CellResult } from '../cells/types.ts';
import { digest } from '../jobs/store.ts';
import { mean } from '../numbers.ts';
import type { PolicyNaming } from '../policies.ts';
import type { ConfirmationLog } from './ledger.ts';
import { branchMeanings } from './help.ts';
import type {
  PlanModel,
  WeightChoice,
  ConfirmationReport,
  ConfirmOutcome,
  ProbeSummary,
  ProbeOutcome,
  ZeroWeight,
} from './outcomes.ts';
import { evidenceLevel } from '../evidence-level.ts';
import { candidateAt } from './plan.ts';
import type { LoadedPlan } from './plan.ts';
import { armSummary, chosenLambda, confirmCells, decide, notMatched } from './statistics.ts';
import type { ArmSummary, ProtocolDecision, CellSample } from './statistics.ts';

/** The name of the one task of a plan. */
export const TASK = 'problems';

/** Runs the models of a plan, by name. */
export interface ModelRunner extends Pick<PolicyNaming, 'names'> {
  /** Returns the digest of a model's weights, and its engine. */
  readonly identity: (model: string) => Promise<Omit<PlanModel, 'name'>>;
  /** Runs cells on a model of the plan. */
  readonly run: (model: string, cells: readonly Cell[]) => Promise<readonly CellResult[]>;
}

/** Problems on which the candidate at weight 0 is compared with the base. */
const AT_ZERO = 3;

/** Returns the models of a plan with their weights. @throws KvError for one model under two names */
async function modelsOf({ plan }: LoadedPlan, { identity }: ModelRunner, step: string): Promise<readonly PlanModel[]> {
  const models: PlanModel[] = [];
  for (const { name } of plan.models) {
    const one = { name, ...(await identity(name)) },
      twin = models.find(({ weights }) => weights === one.weights);
    if (twin)
      throw new KvError(
        step,
        `expected models of different weights, got one (${one.weights}) as ${JSON.stringify(twin.name)} and as ${JSON.stringify(name)}: name each once`,
      );
    models.push(one);
  }
  return models;
}

/**
 * Tries every weight on dev ids, at the base's mean cache, and chooses the best of those that match it in every cell.
 * @throws KvError for a problem that was confirmed on before, under whatever id, or one model under two names
 */
export async function probe(
  protocol: LoadedPlan,
  ids: readonly string[],
  bed: ModelRunner,
  ledger: ConfirmationLog,
): Promise<ProbeOutcome> {
  const { plan, texts, hash, dev } = protocol,
    { names, run } = bed;
  const held = new Set(ledger.looks(ids.map((id) => texts.get(id)!)).flatMap((look) => look.texts)),
    looked = ids.find((id) => held.has(texts.get(id)!));
  if (looked !== undefined)
    throw new KvError(
      'probe',
      `expected problems to choose on alone, got ${JSON.stringify(looked.slice(0, 80))}, which says what one that was confirmed on says`,
    );
  const models = await modelsOf(protocol, bed, 'probe'),
    problems = ids.map((id) => ({ task: TASK, id })),
    answers = async (model: string, policy: string, budget: number, some = problems): Promise<readonly CellResult[]> =>
      run(
        model,
        await cellsOf([{ policy, budgets: [budget], cache: plan.cache }], some, plan.seeds.slice(0, 1), names),
      );
  /** Compares the candidate at weight 0 with the base; undefined where 0 is no weight of it. */
  const zero = async (model: string, budget: number, base: readonly CellResult[]): Promise<ZeroWeight | undefined> => {
    const some = problems.slice(0, AT_ZERO),
      found = await answers(model, candidateAt(plan, 0), budget, some).catch((error: unknown) => {
        if (KvError.is(error)) return undefined;
        throw error;
      });
    return found && { differ: found.filter(({ answer }, i) => answer !== base[i].answer).length, of: some.length };
  };
  // a weight that is none is told before anything runs
  for (const lambda of plan.lambdas)
    await cellsOf([{ policy: candidateAt(plan, lambda), budgets: plan.budgets }], problems.slice(0, 1), [0], names);
  const cells: ProbeOutcome['cells'][number][] = [];
  for (const { name: model } of plan.models)
    for (const budget of plan.budgets) {
      const answered = await answers(model, plan.base, budget),
        base = armSummary(answered),
        atZero = await zero(model, budget, answered),
        arms: ProbeSummary[] = [];
      for (const lambda of plan.lambdas) {
        const policy = candidateAt(plan, lambda),
          at = async (slots: number): Promise<ArmSummary> => armSummary(await answers(model, policy, slots)),
          found = await rebudget(base.meanSlots, budget, plan.within, async (slots) => (await at(slots)).meanSlots),
          summary = await at(found.budget); // already known
        arms.push({
          lambda,
          slots: found.budget,
          matched: found.matched,
          gain: summary.accuracy - base.accuracy,
          ...summary,
        });
      }
      cells.push({ model, budget, base, arms, ...(atZero && { atZero }) });
    }
  const gains = plan.lambdas.map((lambda, i) => ({
      lambda,
      gain: mean(cells.map(({ arms }) => arms[i].gain)),
      matched: cells.every(({ arms }) => arms[i].matched),
    })),
    matched = gains.filter((one) => one.matched);
  return ledger.write((add) => {
    const outcome = {
      plan: hash,
      models,
      ids: ids.length,
      of: dev.length,
      probes: ledger.probes() + 1,
      ...(matched.length > 0 && { lambda: chosenLambda(matched) }),
      gains,
      cells,
    };
    add({ kind: 'probe', probe: outcome });
    return outcome;
  });
}

/** Describes how the weight was chosen; undefined if all ids were asked once. */
function chosenText({ ids, of, probes }: WeightChoice): string | undefined {
  const told = [
    ...(ids < of ? [`on ${ids} of ${of} ids to choose on`] : []),
    ...(probes > 1 ? [`by probe ${probes} of these problems`] : []),
  ];
  return told.length === 0 ? undefined : `weight chosen ${told.join(', ')}`;
}

/** Joins the clauses of a verdict. */
const joined = (...clauses: readonly (string | undefined)[]): string =>
  clauses.filter((clause) => clause !== undefined).join('; ');

/**
 * Runs the chosen weight on confirmation ids, once, and stores the result; asked again, returns the stored result with
 * the number of this look. A look after the first, by any plan at any of these problems, is no confirmation. @throws
 * KvError before a probe that chose a weight, or for a model whose weights differ from the probe's
 */
export async function confirm(
  protocol: LoadedPlan,
  bed: ModelRunner,
  ledger: ConfirmationLog,
): Promise<ConfirmationReport> {
  const { plan, hash, confirm: ids } = protocol,
    { names, run } = bed,
    probed = ledger.probed(hash);
  if (!probed)
    throw new KvError('confirm', `expected a probe of this plan (${hash}) before, got none: run kv protocol probe`);
  const { lambda, cells, models: asked, ids: tried, of, probes } = probed;
  if (lambda === undefined)
    throw new KvError(
      'confirm',
      `expected a probe that chose a weight, got one where none has the base's mean cache, within ${plan.within}, in every cell: write a plan with other weights or budgets`,
    );
  const models = await modelsOf(protocol, bed, 'confirm');
  for (const [i, { name, weights }] of models.entries())
    if (weights !== asked[i].weights)
      throw new KvError(
        'confirm',
        `expected the weights that were probed (${asked[i].weights}) of ${JSON.stringify(name)}, got others (${weights}): run kv protocol probe again`,
      );
  const slots = cells.map(({ arms }) => arms.find((arm) => arm.lambda === lambda)!.slots), // the probe has all weights
    config = digest({ hash, lambda, slots, models }),
    { written, at } = await ledger.write((add) => {
      const written = ledger.confirmed(hash, config),
        at = lookAt(protocol, ledger, written ? undefined : config);
      if (written) add({ kind: 'again', config });
      else if (!ledger.begun(config)) add({ kind: 'begun', config });
      return { written, at };
    });
  if (written) return told(written, at);
  const problems = ids.map((id) => ({ task: TASK, id })),
    sampled: CellSample[] = [];
  for (const [i, { model, budget }] of cells.entries()) {
    const answers = async (policy: string, at: number): Promise<readonly CellResult[]> =>
      run(model, await cellsOf([{ policy, budgets: [at], cache: plan.cache }], problems, plan.seeds, names));
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
    look: at.look,
    models,
    lambda,
    chosen: { ids: tried, of, probes },
    ids: ids.length,
    seeds: plan.seeds,
    cells: confirmCells(sampled, plan.within),
  };
  return ledger.write((add) => {
    const other = ledger.confirmed(hash, config); // another process may have finished the same run meanwhile
    if (!other) {
      add({ kind: 'confirm', confirm: outcome });
      return told(outcome, at);
    }
    const later = lookAt(protocol, ledger);
    add({ kind: 'again', config });
    return told(other, later);
  });
}

/** Number of the next look at confirmation problems, and how many of them were looked at before. */
type Look = Pick<ConfirmationReport, 'look' | 'seen'>;
/** Returns the next look; a run of this configuration that was killed counts as this look, not as one before it. */
function lookAt({ confirm: ids, texts }: LoadedPlan, ledger: ConfirmationLog, config?: string): Look {
  const before = ledger.looks().filter((look) => look.config !== config),
    held = new Set(before.flatMap((one) => one.texts));
  return { look: before.length + 1, seen: ids.filter((id) => held.has(texts.get(id)!)).length };
}

/** Returns a confirmation as reported at a look. */
function told(outcome: ConfirmOutcome, { look, seen }: Look): ConfirmationReport {
  const before = look > 1 ? `${seen} of these ${outcome.ids} problems were looked at before` : undefined,
    verdict = joined(lookText(look), before, chosenText(outcome.chosen), notMatched(outcome.cells));
  return { verdict, ...outcome, look, seen };
}

/** Describes a look at confirmation ids. */
const lookText = (look: number): string => `${look > 1 ? 'not a confirmation: ' : ''}look ${look} at these ids`;

interface Branched extends ProtocolDecision, Pick<ConfirmOutcome, 'config' | 'models' | 'lambda' | 'chosen' | 'ids'> {
  /** The branch and its meaning, preceded by why it is no confirmation, if so; or that mean caches are not matched. */
  readonly verdict: string;
  readonly documents: number;
  readonly evidence: ReturnType<typeof evidenceLevel>;
  /** Number of cells, of which `passed` gain. */
  readonly cells: number;
  readonly looks: number;
}

/** Returns the number of documents that every cell of a confirmation answered: problems of one count once. */
export const documentsOf = (cells: readonly { readonly problems: number }[]): number =>
  Math.min(...cells.map(({ problems }) => problems));

/** Returns the branch of a plan's newest confirmation. @throws KvError if there is none */
export function branch({ hash }: LoadedPlan, ledger: ConfirmationLog): Branched {
  const confirmed = ledger.confirmed(hash);
  if (!confirmed)
    throw new KvError(
      'branch',
      `expected a confirmation of this plan (${hash}) before, got none: run kv protocol confirm`,
    );
  const { config, models, lambda, chosen, ids, cells } = confirmed;
  const decision = decide(cells),
    documents = documentsOf(cells),
    looks = ledger.looks().length,
    verdict = joined(
      looks > 1 ? lookText(looks) : undefined,
      chosenText(chosen),
      decision.branch === undefined
        ? notMatched(cells)
        : `branch ${decision.branch}: ${branchMeanings[decision.branch]}`,
    );
  return {
    verdict,
    ...decision,
    cells: cells.length,
    ids,
    documents,
    evidence: evidenceLevel(documents),
    config,
    models,
    lambda,
    chosen,
    looks,
  };
}

import { id, KvError } from '@kv/core';
import { allowanceOf, compile, expectBudget, isShare, planBudgets, raisedNote, withProtected } from '@kv/core/engine';
import type { AnySignal, Budget, BudgetPlan, Policy, PositionSpan } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import {
  activePolicyOf,
  carriedOn,
  decodingBy,
  sameTerm,
  savedTerm,
  withLevels,
  type ActivePolicy,
  type EventBudget,
  type EventResult,
} from '../memory/active-policy.ts';
import { levelOf } from '../cache/records.ts';
import { expectLevelsFit, movesTogether } from '../cache/slot-sizes.ts';
import { resize, sizesAt } from '../memory/budget-sizes.ts';
import { expectViewsFit } from '../memory/expect-views.ts';
import type { Memory } from '../memory/memory.ts';
import { expectRecorded, observationPlan } from '../memory/observation-plan.ts';
import type { SequenceStats } from './stats.ts';

/** Runs a sequence's events under its policy and budgets. */
export class PolicySchedule {
  active: ActivePolicy;
  readonly #memory: Memory;
  readonly #stats: SequenceStats;

  /**
   * @param stats receives the counts, times and notes of events
   * @param active @defaultValue a policy that keeps everything
   */
  constructor(memory: Memory, stats: SequenceStats, active: ActivePolicy = activePolicyOf(compile(id), undefined)) {
    [this.#memory, this.#stats, this.active] = [memory, stats, active];
  }

  /** Returns a policy compiled, with the positions that are protected already. */
  compiled(policy: Policy): CompiledPolicy {
    return withProtected(compile(policy), this.active.policy.protectedSpans);
  }

  /** Protects positions under the active policy, and under every later one. @throws KvError where they do not fit */
  protect(spans: readonly PositionSpan[]): void {
    const policy = withProtected(this.active.policy, spans),
      { budget } = this.active,
      // a share yields to what is protected, as it does to what the policy forces
      raised = budget?.share !== undefined && {
        budget: { ...budget, slots: policy.least(this.#memory.progress.length, budget.slots) },
      };
    if (budget && !raised) expectBudget(policy, budget.slots);
    this.active = { ...this.active, ...raised, policy };
  }

  /**
   * Returns the slots per KV head of a policy's events: those asked for, else as before, else the number of tokens if
   * the policy chooses its own size.
   */
  allowance(
    policy: CompiledPolicy,
    budget: Budget | undefined,
    tokens: number,
    at: 'budget' | 'decodeBudget' = 'budget',
  ): EventBudget | undefined {
    const { config } = this.#memory.caches.context.model;
    expectLevelsFit(policy, config);
    expectViewsFit(policy, config);
    const { caches } = this.#memory,
      sizes = sizesAt(caches, activePolicyOf(policy, undefined, this.#carried), tokens),
      place = { at, sizes },
      before = this.active.budget;
    if (budget !== undefined) return allowanceOf(policy, budget, tokens, place);
    if (before === undefined) return policy.choosesBudget ? { slots: tokens } : undefined;
    if (before.bytes !== undefined) return allowanceOf(policy, { bytes: before.bytes }, tokens, place);
    if (before.share === undefined) {
      expectBudget(policy, before.slots, { at });
      return before;
    }
    const next = resize(before, sizesAt(caches, this.active, tokens), sizes);
    return { ...next, slots: policy.least(tokens, next.slots) };
  }

  /**
   * Returns what is active under this policy and budget from now on. Attention goes on adding what slots were folded into
   * before, whatever the policy.
   *
   * @throws KvError for a policy that cannot go on with what was folded: it adds another term, or moves slots
   */
  follow(policy: CompiledPolicy, budget: EventBudget | undefined): ActivePolicy {
    const { attends } = this.#carried,
      next = activePolicyOf(policy, budget, this.#carried);
    if (attends && (movesTogether(policy) || !sameTerm(next.attends!, savedTerm(attends))))
      throw new KvError(
        'policy',
        `expected one with '${attends.label}', or one that folds nothing and moves no slots, as slots were folded by '${attends.label}', got '${policy.label}'`,
      );
    return next;
  }

  get #carried(): Pick<ActivePolicy, 'last' | 'attends'> {
    return carriedOn(this.active, this.#memory.caches.layers);
  }

  /**
   * Sets the policy that tokens are generated under from now on.
   *
   * @throws KvError for a policy that evicts without a budget, that reads what was not recorded, or that does not go on
   * moving kept slots together.
   */
  decoding(policy: Policy, budget: Budget | undefined): ActivePolicy {
    const next = this.compiled(policy),
      allowance = this.allowance(next, budget, this.#memory.progress.length, 'decodeBudget');
    if (allowance === undefined) expectBudget(next, undefined, { at: 'decodeBudget' });
    if (movesTogether(this.active.policy) && !movesTogether(next))
      throw new KvError(
        'decodePolicy',
        `'${this.active.policy.label}' moves kept slots together, expected a policy that goes on doing so, got '${next.label}'`,
      );
    // before the first token nothing is recorded yet
    if (this.#memory.progress.length > 0)
      expectRecorded([...(next.evicts ? next.needs : []), ...readByHooks(next)], this.#memory.caches);
    return decodingBy(
      this.follow(next, allowance && { ...allowance, ...(isShare(budget) && { follows: true }) }),
      this.active,
    );
  }

  /** Returns an event's budgets, or undefined if every head already fits and no slot may be demoted. */
  plan(lengths: readonly (readonly number[])[]): BudgetPlan | undefined {
    const budget = this.active.budget!, // there where the active evicts
      plan = planBudgets(this.active.policy, budget, lengths);
    const { choosesBudget, levels } = this.active.policy;
    if (choosesBudget || levels || plan.budgets.some((heads, l) => heads.some((b, g) => b < lengths[l][g])))
      return plan;
    this.note(raisedNote(this.active.policy, budget));
    return undefined;
  }

  /**
   * Runs an event over all layers: all of them pass their checks before the first is compacted.
   * @param signal ends it, with nothing changed, while a provider runs a pass
   */
  async event(signal?: AbortSignal): Promise<void> {
    const plan = this.plan(this.#memory.slots.lengths());
    if (!plan) return;
    const layers = plan.budgets.map((_, l) => l);
    this.done(
      plan,
      await this.#memory.event({
        active: this.active,
        layers,
        plan,
        times: this.#stats.times,
        signal,
        onPass: () => {
          this.#stats.counts.providerPasses++;
        },
      }),
    );
  }

  done({ notes }: BudgetPlan, last: EventResult): void {
    this.#stats.counts.events++;
    const own = levelOf(this.#memory.cache.form);
    this.active = { ...this.active, last: withLevels(last, this.active.last, own) };
    this.note(...notes, ...last.notes);
  }

  /** Adds notes to the report, each once. */
  note(...notes: readonly (string | undefined)[]): void {
    const { notes: noted } = this.#stats;
    for (const note of notes) if (note !== undefined && !noted.includes(note)) noted.push(note);
  }
}

/** Returns what views and step hooks read. */
export const readByHooks = ({ hooks }: CompiledPolicy): readonly AnySignal[] =>
  [...hooks('view'), ...hooks('step')].flatMap(({ needs }) => needs);

/** Returns whether only events read what is recorded under a policy. @param observed whether an observer is set */
export function onlyEventsRead(policy: CompiledPolicy, observed: boolean): boolean {
  if (observed && policy.hooks('view').length > 0) return false;
  const { window, accumulated, block, inputs } = observationPlan(readByHooks(policy));
  return window === 0 && !accumulated && !block && inputs.length === 0;
}

/**
 * Returns whether a policy can act only after the whole prompt was fed, which may come in blocks. What a sidecar file
 * provides is there before the prompt.
 */
export const waits = ({ needsFullPrompt, reach, needs }: CompiledPolicy, inBlocks = true): boolean =>
  (needsFullPrompt && inBlocks) ||
  reach === 'model' ||
  needs.some(({ provide, cost, hidden }) => provide !== undefined && (cost !== 'artifact' || hidden === true));

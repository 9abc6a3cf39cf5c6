import { id, KvError } from '@kv/core';
import { allowanceOf, compile, expectBudget, planBudgets, raisedNote } from '@kv/core/engine';
import type { Budget, BudgetPlan, Policy } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import {
  courseOf,
  decodingBy,
  type ActivePolicy,
  type EventBudget,
  type EventResult,
  type EventTimes,
} from '../memory/active-policy.ts';
import type { Memory } from '../memory/memory.ts';
import { watchOf } from '../memory/watch.ts';

interface EventCounts {
  events: number;
  providerPasses: number;
}

/** Runs a sequence's events under its policy and budgets. */
export class PolicySchedule {
  course: ActivePolicy = courseOf(compile(id), undefined);
  readonly notes: string[] = [];
  readonly #memory: Memory;
  readonly #counts: EventCounts;
  readonly #times: EventTimes;

  /**
   * @param counts receives the number of events, and of passes of their providers
   * @param times receives the time of each stage of events
   */
  constructor(memory: Memory, counts: EventCounts, times: EventTimes) {
    [this.#memory, this.#counts, this.#times] = [memory, counts, times];
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
    if (budget !== undefined) return allowanceOf(policy, budget, tokens, at);
    const before = this.course.budget;
    if (before === undefined) return policy.choosesBudget ? { slots: tokens } : undefined;
    if (before.share === undefined) expectBudget(policy, before.slots, at);
    return before.share === undefined ? before : { ...before, slots: policy.least(tokens, before.slots) };
  }

  /**
   * Sets the policy that tokens are generated under from now on.
   *
   * @throws KvError for a policy that evicts without a budget, or that does not go on moving kept slots together.
   */
  decoding(policy: Policy, budget: Budget | undefined): ActivePolicy {
    const next = compile(policy),
      allowance = this.allowance(next, budget, this.#memory.length, 'decodeBudget');
    const moves = ({ hooks }: CompiledPolicy): boolean =>
      hooks('compact').some(({ movesTogether: together }) => together);
    if (allowance === undefined) expectBudget(next, undefined, 'decodeBudget');
    if (moves(this.course.policy) && !moves(next))
      throw new KvError(
        'decodePolicy',
        `'${this.course.policy.label}' moves kept slots together, expected a policy that goes on doing so, got '${next.label}'`,
      );
    const course = courseOf(
      next,
      allowance && { ...allowance, ...(typeof budget === 'string' && { follows: true }) },
      this.course,
    );
    return decodingBy(course, this.course);
  }

  /** Whether only events read what is recorded. */
  settles(observed: boolean): boolean {
    const { policy } = this.course;
    if (observed && policy.hooks('view').length > 0) return false;
    const { window, accumulated, block } = watchOf(
      [...policy.hooks('view'), ...policy.hooks('step')].flatMap((hook) => hook.needs),
    );
    return window === 0 && !accumulated && !block;
  }

  /** Returns an event's budgets, or undefined if every head already fits. */
  plan(lengths: readonly (readonly number[])[]): BudgetPlan | undefined {
    const budget = this.course.budget!, // there where the course evicts
      plan = planBudgets(this.course.policy, budget, lengths);
    if (this.course.policy.choosesBudget || plan.budgets.some((heads, l) => heads.some((b, g) => b < lengths[l][g])))
      return plan;
    this.note(raisedNote(this.course.policy, budget));
    return undefined;
  }

  /** Runs an event over all layers: all of them pass their checks before the first is compacted. */
  async event(): Promise<void> {
    const plan = this.plan(this.#memory.lengths());
    if (!plan) return;
    const layers = plan.budgets.map((_, l) => l);
    this.done(
      plan,
      await this.#memory.event(this.course, layers, plan, this.#times, () => {
        this.#counts.providerPasses++;
      }),
    );
  }

  done({ notes }: BudgetPlan, last: EventResult): void {
    this.#counts.events++;
    this.course = { ...this.course, last };
    this.note(...notes, ...last.notes);
  }

  /** Adds notes to the report, each once. */
  note(...notes: readonly (string | undefined)[]): void {
    for (const note of notes) if (note !== undefined && !this.notes.includes(note)) this.notes.push(note);
  }
}

/**
 * Returns whether a policy can act only after the whole prompt was fed, which may come in blocks. What a sidecar file
 * provides is there before the prompt.
 */
export const waits = ({ needsFullPrompt, reach, needs }: CompiledPolicy, inBlocks = true): boolean =>
  (needsFullPrompt && inBlocks) ||
  reach === 'model' ||
  needs.some(({ provide, cost, hidden }) => provide !== undefined && (cost !== 'artifact' || hidden === true));

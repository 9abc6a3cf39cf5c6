import type { ArmSummary, ConfirmCell } from './statistics.ts';

/** One candidate weight on ids to choose on. */
export interface ProbeSummary extends ArmSummary {
  readonly lambda: number;
  /** Slots at which its mean cache is the base's. */
  readonly slots: number;
  readonly matched: boolean;
  readonly gain: number;
}

/** A model of a plan as it was asked. */
export interface PlanModel {
  readonly name: string;
  /** What names its weights, whatever it is called. */
  readonly weights: string;
  readonly engine: string;
}

/** How a weight was chosen. */
export interface WeightChoice {
  /** On so many ids, of those there are to choose on. */
  readonly ids: number;
  readonly of: number;
  /** The first probe of the problem file is 1. */
  readonly probes: number;
}

/** What ids to choose on said. */
export interface ProbeOutcome extends WeightChoice {
  readonly plan: string;
  readonly models: readonly PlanModel[];
  /** Absent where no weight has the base's mean cache in every cell. */
  readonly lambda?: number;
  /** Mean over cells, and whether the mean caches are matched in all of them. */
  readonly gains: readonly { readonly lambda: number; readonly gain: number; readonly matched: boolean }[];
  readonly cells: readonly {
    readonly model: string;
    readonly budget: number;
    readonly base: ArmSummary;
    readonly arms: readonly ProbeSummary[];
  }[];
}

/** What ids to confirm on said: written once. */
export interface ConfirmOutcome {
  readonly plan: string;
  /** Of plan, weight, budgets, models and engines. */
  readonly config: string;
  /** The first look at these problems is 1. */
  readonly look: number;
  readonly models: readonly PlanModel[];
  readonly lambda: number;
  readonly chosen: WeightChoice;
  readonly ids: number;
  readonly seeds: readonly number[];
  readonly cells: readonly ConfirmCell[];
}

/** A confirmation as it is told: a look after the first confirms nothing, and says so first. */
export interface ConfirmationReport extends ConfirmOutcome {
  readonly verdict: string;
  /** How many of its problems were looked at before. */
  readonly seen: number;
}

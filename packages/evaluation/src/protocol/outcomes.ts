import type { ArmSummary, ConfirmCell } from './statistics.ts';

/** The result of one candidate weight on the dev ids. */
export interface ProbeSummary extends ArmSummary {
  readonly lambda: number;
  /** Budget in slots at which its mean cache equals the base's. */
  readonly slots: number;
  readonly matched: boolean;
  readonly gain: number;
}

/** A model of a plan, as it was run. */
export interface PlanModel {
  readonly name: string;
  /** Digest of its weights, independent of its name. */
  readonly weights: string;
  readonly engine: string;
}

/** How the weight was chosen. */
export interface WeightChoice {
  /** Number of dev ids used, `of` those available. */
  readonly ids: number;
  readonly of: number;
  /** Number of the probe; the first of a problem file is 1. */
  readonly probes: number;
}

/** Of the first few problems, how many the candidate at weight 0 answers otherwise than the base. */
export interface ZeroWeight {
  readonly differ: number;
  readonly of: number;
}

/** The result of a probe, on the dev ids. */
export interface ProbeOutcome extends WeightChoice {
  readonly plan: string;
  readonly models: readonly PlanModel[];
  /** The chosen weight; absent if none matches the base's mean cache in every cell. */
  readonly lambda?: number;
  /** For each weight: the mean gain over cells, and whether the mean caches match in all of them. */
  readonly gains: readonly { readonly lambda: number; readonly gain: number; readonly matched: boolean }[];
  readonly cells: readonly {
    readonly model: string;
    readonly budget: number;
    readonly base: ArmSummary;
    readonly arms: readonly ProbeSummary[];
    /** Absent where the candidate has no weight 0. */
    readonly atZero?: ZeroWeight;
  }[];
}

/** The result of a confirmation, written once. */
export interface ConfirmOutcome {
  readonly plan: string;
  /** Digest of plan, weight, budgets, models and engines. */
  readonly config: string;
  /** Number of the look; the first at these problems is 1. */
  readonly look: number;
  readonly models: readonly PlanModel[];
  readonly lambda: number;
  readonly chosen: WeightChoice;
  readonly ids: number;
  readonly seeds: readonly number[];
  readonly cells: readonly ConfirmCell[];
}

/** A confirmation as reported: a look after the first confirms nothing, and says so first. */
export interface ConfirmationReport extends ConfirmOutcome {
  readonly verdict: string;
  /** Number of its problems that were looked at before. */
  readonly seen: number;
}

import type { ArmSummary, ConfirmCell } from './statistics.ts';

/** One candidate weight on ids to choose on. */
export interface Probed extends ArmSummary {
  readonly lambda: number;
  /** Slots at which its mean cache is the base's. */
  readonly slots: number;
  readonly matched: boolean;
  readonly gain: number;
}

/** What ids to choose on said. */
export interface ProbeOutcome {
  readonly plan: string;
  /** How many of them. */
  readonly ids: number;
  readonly lambda: number;
  /** Mean over cells. */
  readonly gains: readonly { readonly lambda: number; readonly gain: number }[];
  readonly cells: readonly {
    readonly model: string;
    readonly budget: number;
    readonly base: ArmSummary;
    readonly arms: readonly Probed[];
  }[];
}

/** What ids to confirm on said: written once. */
export interface ConfirmOutcome {
  readonly plan: string;
  /** Of plan, weight, budgets, models and engines. */
  readonly config: string;
  /** The first look at these problems is 1. */
  readonly look: number;
  readonly lambda: number;
  readonly ids: number;
  readonly seeds: readonly number[];
  readonly cells: readonly ConfirmCell[];
}

/** A confirmation as it is told: a look after the first confirms nothing, and says so first. */
export interface Confirmed extends ConfirmOutcome {
  readonly verdict: string;
  /** How many of its problems were looked at before. */
  readonly seen: number;
}

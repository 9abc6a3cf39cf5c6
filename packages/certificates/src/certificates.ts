import type { Constants } from './constants.ts';
import { ages } from './fading.ts';
import type { AttentionFading } from './fading.ts';
import { retrievalRatio } from './mass.ts';
import { reuse } from './reuse.ts';
import type { Reuse } from './reuse.ts';
import { schedules } from './schedules.ts';
import type { LayerBound } from './schedules.ts';
import type { AttentionRow } from './seen-row.ts';
import { surrogates } from './surrogate.ts';
import type { Surrogate } from './surrogate.ts';
import { tally } from './tally.ts';
import type { Summary } from './tally.ts';

/** What a run's report holds under `certificates`. */
export interface Certificates {
  /** Evictions, for the newest query of each. */
  readonly events?: Summary;
  /** Views, for every generated token. */
  readonly views?: Summary;
  /** Retrievals over H L steps, ρ, under CIS or HShare: what was not reused. */
  readonly retrievalRatio?: number;
  /** Queries that reused an earlier one's set, under CIS, with the bounds on what that costs. */
  readonly reuse?: Reuse;
  /** Views that choose by scores, those taken as estimates of the logits. */
  readonly surrogate?: Surrogate;
  /** Absent where no row reaches far enough to fit. */
  readonly fading?: AttentionFading;
  /** PSAW and ETF by layer, with a calibration's constants. */
  readonly schedules?: readonly LayerBound[];
}

/**
 * What there was to see: `total` adds up a state that pieces kept in all layers, `frozen` counts positions of the
 * prompt that each layer did not compute.
 */
export interface CertificateInput {
  readonly heads: number;
  readonly layers: number;
  readonly steps: number;
  readonly frozen?: readonly number[];
  total(state: string): number | undefined;
}

/**
 * Collects what a run drops and hides, and concludes certificates about it: `generate(model, { ..., certify:
 * certificates() })`, then `report.certificates`.
 *
 * @remarks PrHS, Lemma 1 and the bounds that can be checked. Weights are those of the newest query over the slots that
 * were there: what earlier events evicted is not among them.
 * @param options.sinks positions that the fading of attention leaves out
 * @param options.constants of a calibration, for the bounds of PSAW and ETF
 */
export function certificates({
  sinks = 4,
  constants,
}: {
  readonly sinks?: number;
  readonly constants?: Constants | undefined;
} = {}): { row(row: AttentionRow): void; conclude(run: CertificateInput): Certificates } {
  const events = tally(),
    views = tally(),
    fading = ages(sinks),
    shared = reuse(),
    guessed = surrogates(),
    designed = constants && schedules(constants);
  return {
    row(row) {
      (row.at === 'event' ? events : views).add(row.layer, row.weights, row.kept);
      fading.add(row);
      shared.add(row);
      guessed.add(row);
      designed?.add(row);
    },
    conclude(run) {
      const [gone, hidden, faded, reused, estimated, bounds] = [
          events.take(),
          views.take(),
          fading.take(),
          shared.take(),
          guessed.take(),
          designed?.take(run.frozen ?? []),
        ],
        found = run.total('state.cis.retrievals') ?? run.total('state.hshare.retrievals');
      return {
        ...(gone && { events: gone }),
        ...(hidden && { views: hidden }),
        ...(found !== undefined && run.steps > 0 && { retrievalRatio: retrievalRatio(found, run) }),
        ...(reused && { reuse: reused }),
        ...(estimated && { surrogate: estimated }),
        ...(faded && { fading: faded }),
        ...(bounds && { schedules: bounds }),
      };
    },
  };
}

import type { Constants } from './constants.ts';
import { ages } from './fading.ts';
import type { AttentionFading } from './fading.ts';
import { retrievalRatio } from './mass.ts';
import { reuse } from './reuse.ts';
import type { Reuse } from './reuse.ts';
import { roundings } from './rounding.ts';
import type { Rounding } from './rounding.ts';
import { schedules } from './schedules.ts';
import type { LayerBound } from './schedules.ts';
import type { AttentionRow } from './attention-row.ts';
import { surrogates } from './surrogate.ts';
import type { Surrogate } from './surrogate.ts';
import { tally } from './tally.ts';
import type { Summary } from './tally.ts';

/** The field `certificates` of a run's report. */
export interface Certificates {
  /** Evictions, judged by the newest query of each. */
  readonly events?: Summary;
  /** Views, judged for every generated token. */
  readonly views?: Summary;
  /** ρ under CIS or HShare: retrievals over H L steps. */
  readonly retrievalRatio?: number;
  /** Queries that reused an earlier query's set under CIS, with the bounds on what that costs. */
  readonly reuse?: Reuse;
  /** Views that choose by scores, with the scores judged as estimates of the logits. */
  readonly surrogate?: Surrogate;
  /** Queries over caches that are not f32, with the bounds on what rounding changes. */
  readonly rounding?: Rounding;
  /** Absent where no row has slots old enough for a fit. */
  readonly fading?: AttentionFading;
  /** Bounds of PSAW and ETF by layer. Needs `constants`. */
  readonly schedules?: readonly LayerBound[];
}

/**
 * Facts of a finished run. `total` sums a state that pieces kept over all layers; `frozen` counts, for each layer, the
 * positions of the prompt that it did not compute.
 */
export interface CertificateInput {
  readonly heads: number;
  readonly layers: number;
  readonly steps: number;
  readonly frozen?: readonly number[];
  total(state: string): number | undefined;
}

/**
 * Returns a collector of what a run evicts and hides, which concludes certificates about it: pass it as
 * `generate(model, { ..., certify: certificates() })` and read `report.certificates`.
 *
 * @remarks PrHS, Lemma 1 and the bounds that can be checked. Weights are those of the newest query over the slots in
 * the cache: slots evicted by earlier events are not among them.
 * @param options.sinks first positions, left out of the fading fit. Default 4
 * @param options.constants constants of a calibration, needed for the bounds of PSAW and ETF
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
    coarse = roundings(),
    designed = constants && schedules(constants);
  return {
    row(row) {
      (row.at === 'event' ? events : views).add(row.layer, row.weights, row.kept, row.sink);
      fading.add(row);
      shared.add(row);
      guessed.add(row);
      coarse.add(row);
      designed?.add(row);
    },
    conclude(run) {
      const [gone, hidden, faded, reused, estimated, rounding, bounds] = [
          events.take(),
          views.take(),
          fading.take(),
          shared.take(),
          guessed.take(),
          coarse.take(),
          designed?.take(run.frozen ?? []),
        ],
        found = run.total('state.cis.retrievals') ?? run.total('state.hshare.retrievals');
      return {
        ...(gone && { events: gone }),
        ...(hidden && { views: hidden }),
        ...(found !== undefined && run.steps > 0 && { retrievalRatio: retrievalRatio(found, run) }),
        ...(reused && { reuse: reused }),
        ...(estimated && { surrogate: estimated }),
        ...(rounding && { rounding }),
        ...(faded && { fading: faded }),
        ...(bounds && { schedules: bounds }),
      };
    },
  };
}

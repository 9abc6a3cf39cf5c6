import { droppedMass } from './mass.ts';
import { roundingVariation } from './design.ts';
import { spreads } from './tally.ts';
import type { AttentionRow } from './attention-row.ts';
import type { Spread } from './tally.ts';

/** What storing keys and values in fewer bits can have changed. */
export interface Rounding {
  /** Number of rows: queries over caches that are not f32. */
  readonly rows: number;
  /** η, a bound on the error of a logit: |q| times what was rounded off a key, over sqrt(d). */
  readonly logitError: Spread;
  /** Bound on the total variation between the weights and those of keys that were not rounded. */
  readonly variation: Spread;
  /** Bound on the mass that would be dropped of the weights of keys that were not rounded: δ plus that. */
  readonly dropped: Spread;
  /** Bound on the length of what was rounded off a value: the output moves by no more through its values. */
  readonly valueError: Spread;
}

/** Collects rows over caches that are not f32. */
export function roundings(): { add(row: AttentionRow): void; take(): Rounding | undefined } {
  const all = spreads(['logitError', 'variation', 'dropped', 'valueError']);
  return {
    add({ rounding, vector, weights, sink, kept }) {
      if (!rounding || !vector) return;
      const length = Math.sqrt(vector.reduce((sum, x) => sum + x * x, 0)),
        logitError = (length * rounding.key) / Math.sqrt(vector.length),
        variation = roundingVariation(logitError);
      all.add({
        logitError,
        variation,
        dropped: Math.min(1, droppedMass(weights, kept, sink) + variation),
        valueError: rounding.value,
      });
    },
    take: all.take,
  };
}

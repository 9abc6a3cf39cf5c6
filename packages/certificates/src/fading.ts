import { fitDecay, windowBound } from './design.ts';
import type { Decay } from './design.ts';

/** Fitted fading of attention with age beyond the sinks: (1 - τ_sink) e^(-λ D). */
export interface AttentionFading extends Decay {
  /** Mass of the sinks, τ_sink, mean over the rows. */
  readonly sinkMass: number;
  /** Ages D = 1, 2, 4, ... with the mass of slots at least that old: measured, and bounded with the fitted λ. */
  readonly ages: readonly { readonly age: number; readonly measured: number; readonly bound: number }[];
}

/**
 * Ages 1, 2, 4, ... with the mass beyond the sinks that is at least so old: `query` the position that `weights` belong
 * to, `positions` of its slots.
 */
export function ages(sinks: number): {
  add(row: {
    readonly query: number;
    readonly weights: ArrayLike<number>;
    readonly positions: ArrayLike<number>;
  }): void;
  take(): AttentionFading | undefined;
} {
  const older: { sum: number; rows: number }[] = [];
  let sink = 0,
    rows = 0;
  return {
    add({ query, weights, positions }) {
      let held = 0;
      const tails: number[] = [];
      for (let i = 0; i < positions.length; i++) {
        if (positions[i] < sinks) {
          held += weights[i];
          continue;
        }
        for (let k = 0; 2 ** k <= query - positions[i]; k++) tails[k] = (tails[k] ?? 0) + weights[i];
      }
      for (let k = 0; 2 ** k <= query - sinks; k++) {
        const at = (older[k] ??= { sum: 0, rows: 0 });
        at.sum += tails[k] ?? 0;
        at.rows++;
      }
      sink += held;
      rows++;
    },
    take() {
      const points = older.map(({ sum, rows: n }, k) => [2 ** k, sum / n] as const).filter(([, mass]) => mass > 0),
        sinkMass = sink / Math.max(1, rows);
      if (points.length < 2) return undefined;
      const decay = fitDecay(points);
      return {
        ...decay,
        sinkMass,
        ages: points.map(([age, measured]) => ({
          age,
          measured,
          bound: windowBound({ sinkMass, rate: decay.rate, window: age }),
        })),
      };
    },
  };
}

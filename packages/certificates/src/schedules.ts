import { covering, freezingBound, jointBound, windowBound } from './design.ts';
import { running } from './tally.ts';
import type { AttentionRow } from './attention-row.ts';
import type { Constants } from './constants.ts';
import type { Spread } from './tally.ts';

/** Bounds of PSAW and ETF in one layer, from the constants of a calibration. */
export interface LayerBound {
  readonly layer: number;
  /**
   * PSAW, over the rows seen: mass hidden before the window and beyond the sinks, its bound with the fitted λ, and its
   * bound with the fit raised to cover every calibration point.
   */
  readonly window?: {
    readonly rows: number;
    readonly dropped: Spread;
    readonly fitted: Spread;
    readonly covering: Spread;
    /** Error of the calibration's fit in the logarithm, and the largest amount by which points lie above it. */
    readonly fit: { readonly error: number; readonly above: number };
  };
  /**
   * ETF: β by the largest and by the mean query norm with the fitted B and μ, and by the largest with the raised fit.
   */
  readonly freezing?: {
    readonly positions: number;
    readonly worst: number;
    readonly average: number;
    readonly covering: number;
  };
  /** Largest δ_PSAW + β_ETF over the rows, with the fitted constants: PrHS, eq. 48. */
  readonly joint: number;
}

/** Collects what windows hide, and bounds it and the frozen positions by the constants of a calibration. */
export function schedules({ fading, change, queryNorm, dim, layers }: Constants): {
  add(row: AttentionRow): void;
  take(frozen: readonly number[]): readonly LayerBound[] | undefined;
} {
  const seen: {
    rows: number;
    dropped: ReturnType<typeof running>;
    fitted: ReturnType<typeof running>;
    covering: ReturnType<typeof running>;
  }[] = [];
  return {
    add({ layer, query, weights, positions, window }) {
      const fit = fading[layer];
      if (!window || !fit || window.from <= window.sinks) return;
      const own = (seen[layer] ??= { rows: 0, dropped: running(), fitted: running(), covering: running() }),
        age = query - window.from + 1,
        raised = covering(fit);
      let dropped = 0;
      for (let i = 0; i < positions.length; i++)
        if (positions[i] >= window.sinks && positions[i] < window.from) dropped += weights[i];
      own.rows++;
      own.dropped.add(dropped);
      own.fitted.add(windowBound({ sinkMass: fit.sinkMass, rate: fit.rate, window: age }));
      own.covering.add(Math.min(1, raised.scale * Math.exp(-raised.rate * age)));
    },
    take(frozen) {
      const start = Math.floor((3 * layers) / 4),
        out: LayerBound[] = [];
      for (let layer = 0; layer < layers; layer++) {
        const own = seen[layer],
          positions = frozen[layer] ?? 0,
          depth = layer + 1 - start,
          norm = change && { dim, rate: change.rate, depth };
        const freezing =
          norm && change && positions > 0
            ? {
                positions,
                worst: freezingBound({ ...norm, scale: change.scale, queryNorm: queryNorm.max }),
                average: freezingBound({ ...norm, scale: change.scale, queryNorm: queryNorm.mean }),
                covering: freezingBound({ ...norm, scale: covering(change).scale, queryNorm: queryNorm.max }),
              }
            : undefined;
        const window = own && {
          rows: own.rows,
          dropped: own.dropped.take(),
          fitted: own.fitted.take(),
          covering: own.covering.take(),
          fit: { error: fading[layer]!.error, above: fading[layer]!.above }, // defined: rows were bounded by it
        };
        if (window || freezing)
          out.push({
            layer,
            ...(window && { window }),
            ...(freezing && { freezing }),
            joint: jointBound(window?.fitted.max ?? 0, freezing?.worst ?? 0),
          });
      }
      return out.length === 0 ? undefined : out;
    },
  };
}

import { KvError } from '@kv/core';

const capped = (x: number): number => Math.min(1, x);

/**
 * Bound on the mass that a set chosen by a surrogate drops: δ* + 2 ε, ε the total variation between the weights and the
 * surrogate. PrHS, Lemma 3.
 */
export const posteriorBound = (best: number, variation: number): number => capped(best + 2 * variation);
/**
 * Bound on the total variation between weights whose logits are off by at most η and the true ones: tanh(η / 2). The odds
 * of any set of slots move by at most a factor of e^(2 η), which changes its mass most where it is about a half.
 */
export const roundingVariation = (logitError: number): number => Math.tanh(logitError / 2);
/** `posteriorBound` for logits that are off by at most η (quantised keys): δ* + 2 η. PrHS, Lemma 4. */
export const quantisedBound = (best: number, logitError: number): number => capped(best + 2 * logitError);

/**
 * Bound on the mass beyond δ* that a query drops when it reuses another query's set: β = (2 K_max / sqrt(d)) |q' - q|,
 * at most 1.
 *
 * @remarks PrHS, Proposition 2 (eq. 42) by Lemmas 5 and 6, over one set of keys: logits move by at most
 * (K_max / sqrt(d)) |q' - q|, the total variation by no more, and a best set loses at most twice that.
 */
export const sharingBound = ({
  keyNorm,
  dim,
  distance,
}: {
  readonly keyNorm: number;
  readonly dim: number;
  readonly distance: number;
}): number => capped(((2 * keyNorm) / Math.sqrt(dim)) * distance);
/**
 * β as the paper prints it: 2 (2 K_max / sqrt(d)) sqrt(2 - 2 cos), at most 1.
 *
 * @remarks PrHS, Lemma 7 and eq. 42, which assume queries of unit length. For longer queries it does not hold;
 * `sharingBound` does.
 */
export const printedSharingBound = ({
  keyNorm,
  dim,
  cosine,
}: {
  readonly keyNorm: number;
  readonly dim: number;
  readonly cosine: number;
}): number => capped(2 * ((2 * keyNorm) / Math.sqrt(dim)) * Math.sqrt(Math.max(0, 2 - 2 * cosine)));
/**
 * Bound on the mass that PSAW hides where attention beyond the sinks decays as e^(-λ age): (1 - τ_sink) e^(-λ D), with
 * the window D = t - P + 1. PrHS, Theorem 7.
 */
export const windowBound = ({
  sinkMass,
  rate,
  window,
}: {
  readonly sinkMass: number;
  readonly rate: number;
  readonly window: number;
}): number => (1 - sinkMass) * Math.exp(-rate * window);
/**
 * Bound on what ETF changes in one layer whose other inputs are unchanged, as total variation: (Q_max / sqrt(d)) B
 * e^(-μ (ℓ - ℓ_s)), at most 1. PrHS, Theorem 8.
 */
export const freezingBound = ({
  queryNorm,
  dim,
  scale,
  rate,
  depth,
}: {
  readonly queryNorm: number;
  readonly dim: number;
  readonly scale: number;
  readonly rate: number;
  readonly depth: number;
}): number => capped((queryNorm / Math.sqrt(dim)) * scale * Math.exp(-rate * depth));
/** Bound of CPE, PSAW and ETF together, at most 1. PrHS, eq. 48. */
export const jointBound = (window: number, freezing: number): number => capped(window + freezing);

/**
 * Returns the least φ^α whose window keeps `windowBound` at `allowed` for a query at position t. PrHS, appendix F,
 * solved.
 */
export const windowShare = ({
  sinkMass,
  allowed,
  rate,
  t,
}: {
  readonly sinkMass: number;
  readonly allowed: number;
  readonly rate: number;
  readonly t: number;
}): number => Math.min(1, Math.max(0, Math.log((1 - sinkMass) / allowed) / (rate * t)));
/**
 * Returns the fewest layers between the start of ETF and the first layer that it may freeze so that `freezingBound`
 * stays at `allowed`. PrHS, appendix H, solved.
 */
export const freezingDepth = ({
  queryNorm,
  dim,
  scale,
  rate,
  allowed,
}: {
  readonly queryNorm: number;
  readonly dim: number;
  readonly scale: number;
  readonly rate: number;
  readonly allowed: number;
}): number => Math.max(0, Math.log((queryNorm * scale) / (allowed * Math.sqrt(dim))) / rate);

/** A fitted decay, y = scale e^(-rate x). */
export interface Decay {
  readonly scale: number;
  readonly rate: number;
  /** Root mean square error of the fit, in ln y. */
  readonly error: number;
  /** Largest amount by which ln y exceeds the fit: no point lies above scale e^(above - rate x). */
  readonly above: number;
}
/** Returns the decay raised until none of the fitted points lies above it. */
export const covering = ({ scale, above, ...rest }: Decay): Decay => ({
  ...rest,
  scale: scale * Math.exp(above),
  above: 0,
});
/**
 * Fits a decay to points (x, y) by least squares on ln y.
 *
 * @throws KvError for fewer than two points, all at one x, or y not above 0.
 */
export function fitDecay(points: readonly (readonly [x: number, y: number])[]): Decay {
  const bad = points.find(([x, y]) => !(y > 0 && Number.isFinite(y) && Number.isFinite(x)));
  if (points.length < 2 || bad)
    throw new KvError(
      'fitDecay',
      `expected at least two points with y above 0, got ${bad ? `(${bad.join(', ')})` : points.length}`,
    );
  const mean = (f: (p: readonly [number, number]) => number): number =>
    points.reduce((s, p) => s + f(p), 0) / points.length;
  const x0 = mean(([x]) => x),
    y0 = mean(([, y]) => Math.log(y)),
    spread = mean(([x]) => (x - x0) ** 2);
  if (spread === 0) throw new KvError('fitDecay', `expected points at two places or more, got all at ${x0}`);
  const slope = mean(([x, y]) => (x - x0) * (Math.log(y) - y0)) / spread;
  const miss = ([x, y]: readonly [number, number]): number => Math.log(y) - y0 - slope * (x - x0);
  return {
    scale: Math.exp(y0 - slope * x0),
    rate: -slope,
    error: Math.sqrt(mean((p) => miss(p) ** 2)),
    above: Math.max(0, ...points.map(miss)),
  };
}

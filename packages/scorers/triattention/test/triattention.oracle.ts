/**
 * One layer's statistics of one query head as complex numbers, keys before rotation, in float64: the score as printed,
 * un-rotated.
 */
export interface Complex {
  readonly re: number;
  readonly im: number;
}
const polar = ({ re, im }: Complex): { r: number; phi: number } => ({ r: Math.hypot(re, im), phi: Math.atan2(im, re) });

/**
 * S(k, Δ) averaged over Δ = t - p + δ, δ = 1, 2, 4, ... <= horizon; `factor` is the attention scaling of the rotation.
 */
export function triattentionOracle(
  mean: readonly Complex[],
  size: readonly number[],
  key: readonly Complex[],
  p: number,
  t: number,
  omega: readonly number[],
  factor: number,
  horizon: number,
): number {
  const deltas: number[] = [];
  for (let d = 1; d <= horizon; d *= 2) deltas.push(d);
  const one = (distance: number): number =>
    mean.reduce((sum, q, f) => {
      const a = polar(q),
        b = polar(key[f]);
      return sum + factor ** 2 * (a.r * b.r * Math.cos(omega[f] * distance + a.phi - b.phi) + (size[f] - a.r) * b.r);
    }, 0);
  return deltas.reduce((s, d) => s + one(t - p + d), 0) / deltas.length;
}
/** The rotation of a position, applied to a complex key. */
export const rotated = ({ re, im }: Complex, angle: number, factor: number): Complex => ({
  re: factor * (re * Math.cos(angle) - im * Math.sin(angle)),
  im: factor * (re * Math.sin(angle) + im * Math.cos(angle)),
});

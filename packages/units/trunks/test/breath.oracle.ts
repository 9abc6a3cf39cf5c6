/** The decode-time part of CrystalCache with dense matrices in float64: section 3.8, eq. 34 and 36 to 40. */
export interface Grove {
  D: number[];
  readonly M: readonly number[];
  W: number[][];
  held: number[];
}
export interface Rates {
  readonly decay: number;
  readonly hops: number;
  readonly gain: number;
  readonly bond: number;
  readonly fade: number;
}

/** One generated token: what left a trunk takes its share of D, then D decays. `held` tokens are there now. */
export function stepOracle(grove: Grove, held: readonly number[], { decay }: Rates): void {
  grove.D = grove.D.map((d, g) => {
    const r = grove.held[g] > 0 ? Math.min(1, held[g] / grove.held[g]) : 1,
      left = r * d;
    return Math.max(0, left - decay * Math.exp((-left * grove.M[g]) / 2) * left);
  });
  grove.held = [...held];
}

/**
 * Trunks with more than half of their tokens above 0.3 of the largest mean inverse norm; `norms[position]` of every
 * head that holds it.
 */
export function activeOracle(
  trunks: readonly (readonly number[])[],
  norms: ReadonlyMap<number, readonly number[]>,
): boolean[] {
  const inverse = new Map(
      [...norms].map(([p, list]) => [p, list.reduce((s, x) => s + 1 / Math.max(x, 1e-12), 0) / list.length] as const),
    ),
    most = Math.max(...inverse.values());
  return trunks.map((g) => {
    const here = g.filter((p) => inverse.has(p));
    return here.filter((p) => inverse.get(p)! / most > 0.3).length > here.length / 2;
  });
}

/** One breath: pulses along all walks from active trunks, then edges. */
export function breatheOracle(grove: Grove, active: readonly boolean[], { hops, gain, bond, fade }: Rates): void {
  const { W, D } = grove,
    n = D.length,
    rest = new Array<number>(n).fill(1),
    receive = (g: number, p: number): void => {
      rest[g] *= 1 - gain * p;
    };
  for (let source = 0; source < n; source++) {
    if (!active[source]) continue;
    for (let next = 0; next < n && hops > 0; next++) {
      const one = 1 * W[source][next] * 0.5;
      if (next === source || one < 0.01) continue;
      receive(next, one);
      for (let far = 0; far < n && hops > 1; far++) {
        const two = one * W[next][far] * 0.5;
        if (far !== source && far !== next && two >= 0.01) receive(far, two);
      }
    }
  }
  grove.D = D.map((d, g) => 1 - (1 - d) * rest[g]);
  grove.W = W.map((row, a) =>
    row.map((w, b) => {
      if (w <= 0) return 0;
      const now = active[a] && active[b] ? Math.min(1, w + bond) : fade * w;
      return now < 0.05 ? 0 : now;
    }),
  );
}

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
  readonly pulses: 'search' | 'walks';
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

/** Every walk of at most `hops` edges from a source that does not come back to it: unit and pulse at its end. */
function walks(W: readonly (readonly number[])[], source: number, hops: number): [unit: number, pulse: number][] {
  const ends: [number, number][] = [];
  const go = (unit: number, pulse: number, left: number): void => {
    if (left === 0) return;
    W[unit].forEach((w, next) => {
      const crossed = pulse * w * 0.5;
      if (next === source || next === unit || crossed < 0.01) return;
      ends.push([next, crossed]);
      go(next, crossed, left - 1);
    });
  };
  go(source, 1, hops);
  return ends;
}
/** A breadth-first search with a queue: unit and pulse of each unit that is reached. */
function search(W: readonly (readonly number[])[], source: number, hops: number): [unit: number, pulse: number][] {
  const visited = new Set([source]),
    queue: { unit: number; pulse: number; depth: number }[] = [{ unit: source, pulse: 1, depth: 0 }],
    reached: [number, number][] = [];
  for (let at = queue.shift(); at; at = queue.shift()) {
    if (at.depth === hops) continue;
    for (let next = 0; next < W.length; next++) {
      const pulse = at.pulse * W[at.unit][next] * 0.5;
      if (visited.has(next) || pulse < 0.01) continue;
      visited.add(next);
      reached.push([next, pulse]);
      queue.push({ unit: next, pulse, depth: at.depth + 1 });
    }
  }
  return reached;
}

/** One breath: the pulses of every active unit, then edges, new ones included. */
export function breatheOracle(
  grove: Grove,
  active: readonly boolean[],
  { hops, pulses, gain, bond, fade }: Rates,
): void {
  const { W, D } = grove,
    raised = [...D];
  active.forEach((lit, source) => {
    if (!lit) return;
    for (const [unit, pulse] of (pulses === 'search' ? search : walks)(W, source, hops))
      raised[unit] = Math.min(1, raised[unit] + gain * pulse * (1 - raised[unit]));
  });
  grove.D = raised;
  grove.W = W.map((row, a) =>
    row.map((w, b) => {
      const now = active[a] && active[b] ? Math.min(1, w + bond) : fade * w;
      return a === b || now < 0.05 ? 0 : now;
    }),
  );
}

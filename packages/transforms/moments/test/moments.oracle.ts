// Moments of slots that left, in float64, slot by slot: nothing of the piece is used.

/** A slot that left, and how many slots it counts for. */
export interface Left {
  readonly position: number;
  readonly count: number;
  readonly key: readonly number[];
  readonly value: readonly number[];
}

const dot = (a: readonly number[], b: readonly number[]): number => a.reduce((sum, x, i) => sum + x * b[i], 0);
const meanOf = (of: readonly Left[], what: 'key' | 'value'): number[] => {
  const n = of.reduce((sum, { count }) => sum + count, 0);
  return of[0][what].map((_, c) => of.reduce((sum, slot) => sum + slot.count * slot[what][c], 0) / n);
};

/** Mass and value that slots which left add to the attention of a query, by stretches of `width` positions. */
export function momentsOracle(
  left: readonly Left[],
  query: { readonly z: readonly number[]; readonly position: number },
  {
    width,
    cross,
    spread,
    cap,
    window,
  }: {
    readonly width: number;
    readonly cross: boolean;
    readonly spread: boolean;
    readonly cap?: number;
    readonly window?: number;
  },
): { readonly mass: number; readonly value: readonly number[] } {
  const stretches = new Map<number, Left[]>(),
    { z, position } = query;
  for (const slot of left) {
    const at = Math.floor(slot.position / width);
    stretches.set(at, [...(stretches.get(at) ?? []), slot]);
  }
  let mass = 0,
    value: readonly number[] = left[0]?.value.map(() => 0) ?? [];
  for (const [at, own] of stretches) {
    if (window !== undefined && position - (at + 0.5) * width >= window) continue;
    const n = own.reduce((sum, { count }) => sum + count, 0),
      [k, v] = [meanOf(own, 'key'), meanOf(own, 'value')],
      plain = dot(z, k),
      x = cap === undefined ? plain : cap * Math.tanh(plain / cap),
      slope = cap === undefined ? 1 : 1 - Math.tanh(plain / cap) ** 2;
    let quadratic = 0;
    const turned = v.map(() => 0);
    for (const { count, key, value } of own) {
      const along =
        slope *
        dot(
          z,
          key.map((y, c) => y - k[c]),
        );
      if (spread) quadratic += (count / n) * along ** 2;
      if (cross) value.forEach((y, c) => (turned[c] += (count / n) * along * (y - v[c])));
    }
    const weight = n * Math.exp(x);
    mass += weight * (1 + quadratic / 2);
    value = value.map((y, c) => y + weight * (v[c] + turned[c]));
  }
  return { mass, value: value.map((y) => (mass === 0 ? 0 : y / mass)) };
}

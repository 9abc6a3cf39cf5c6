/** One head of queries over one head of a cache, in float64. */
export interface Head {
  readonly queries: readonly (readonly number[])[];
  readonly queryPositions: readonly number[];
  readonly keys: readonly (readonly number[])[];
  readonly values: readonly (readonly number[])[];
  readonly positions: readonly number[];
  readonly scale: number;
  readonly softcap?: number | undefined;
  /** One more score, of no slot. */
  readonly sink?: number | undefined;
  /** What each slot adds to its score, after any cap. */
  readonly biases?: readonly number[];
  /** Whether the query at this position sees the slot, if it is not its own and not later. */
  readonly visible: (queryPosition: number, slot: number) => boolean;
}

export interface HeadAttended {
  /**
   * By query: probabilities of all slots, what they mix, the log-sum-exp (undefined where nothing is seen), and how far
   * a score may be off for each 2^-24 of f32.
   */
  readonly probabilities: readonly (readonly number[])[];
  readonly mixed: readonly (readonly number[])[];
  readonly lse: readonly (number | undefined)[];
  readonly scoreError: readonly number[];
  /** By query: how many slots it sees. */
  readonly seen: readonly number[];
  /** By query: the largest distance of a seen score from the highest. */
  readonly spread: readonly number[];
}

/** Softmax attention by its formula. */
export function attendHead({
  queries,
  queryPositions,
  keys,
  values,
  positions,
  scale,
  softcap,
  sink = -Infinity,
  biases = [],
  visible,
}: Head): HeadAttended {
  const rows = queries.map((q, r) => {
    const own = queryPositions[r],
      seen = positions.map((p, j) => p === own || (p < own && visible(own, j)));
    const cap = (s: number): number => (softcap === undefined ? s : softcap * Math.tanh(s / softcap));
    const scores = keys.map((k, j) => cap(scale * q.reduce((sum, v, i) => sum + v * k[i], 0)) + (biases[j] ?? 0));
    const sizes = keys.map((k) => scale * q.reduce((sum, v, i) => sum + Math.abs(v * k[i]), 0));
    const all = scores.filter((_, j) => seen[j]),
      top = Math.max(...all, sink),
      total = all.reduce((sum, s) => sum + Math.exp(s - top), top === -Infinity ? 0 : Math.exp(sink - top));
    const probabilities = scores.map((s, j) => (seen[j] ? Math.exp(s - top) / total : 0));
    return {
      probabilities,
      seen: all.length,
      lse: top === -Infinity ? undefined : top + Math.log(total),
      spread: all.length === 0 ? 0 : top - Math.min(...all),
      mixed: q.map((_, c) => probabilities.reduce((sum, p, j) => sum + p * values[j][c], 0)),
      scoreError:
        Math.max(0, ...biases.map(Math.abs)) +
        (q.length + 4) * Math.max(0, ...sizes.filter((_, j) => seen[j])) +
        (softcap === undefined ? 0 : 16 * Math.max(0, ...all.map(Math.abs))),
    };
  });
  const of = <K extends keyof (typeof rows)[number]>(key: K): (typeof rows)[number][K][] => rows.map((row) => row[key]);
  return {
    probabilities: of('probabilities'),
    mixed: of('mixed'),
    lse: of('lse'),
    scoreError: of('scoreError'),
    spread: of('spread'),
    seen: of('seen'),
  };
}

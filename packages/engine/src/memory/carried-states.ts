/**
 * The states that layers without slots carry from token to token, wherever they live. A state cannot be cut back, so
 * that a copy of fewer tokens starts from a snapshot.
 */
export interface CarriedStates {
  /** Bytes of all states, snapshots not counted. */
  readonly bytes: number;
  /** Numbers of tokens after which a snapshot was kept, ascending. */
  readonly snapshots: readonly number[];
  /** Keeps a snapshot of the states as they are after `tokens` tokens, if the memory keeps any. */
  keep(tokens: number): void;
}

/**
 * Returns at most `most` snapshots, spread over the tokens: while there are more, the one whose neighbours lie closest
 * goes; the newest stays.
 */
export function spread<S extends { readonly tokens: number }>(all: readonly S[], most: number): readonly S[] {
  if (all.length <= most) return all;
  if (most === 1) return all.slice(-1);
  const gap = (i: number): number => all[i + 1].tokens - (all[i - 1]?.tokens ?? 0);
  let closest = 0;
  for (let i = 1; i < all.length - 1; i++) if (gap(i) < gap(closest)) closest = i;
  return all.filter((_, i) => i !== closest);
}

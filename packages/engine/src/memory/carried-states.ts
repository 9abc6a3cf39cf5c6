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

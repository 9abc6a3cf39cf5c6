/** What one answer may say next: the state of a grammar. */
export interface Constraint {
  /**
   * Returns which ids may come next as bits (id i: bit i % 32 of word i / 32), or undefined where every id may; valid
   * until `accept`. Ids beyond its words may not come; bits beyond the vocabulary are ignored.
   */
  allowed(): Int32Array | undefined;
  /** Takes the id that came. @throws KvError for one that may not come */
  accept(id: number): void;
  /** Whether nothing but an end token may come. */
  readonly complete: boolean;
  /** Frees it. Idempotent. */
  destroy(): void;
}
/** A compiled grammar, of which answers begin constraints. */
export interface Grammar {
  /** Begins the constraint of one answer. */
  begin(): Constraint;
}

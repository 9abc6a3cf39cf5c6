import type Fraction from 'fraction.js';

/** What a formula is, as it is written. */
export type Expression =
  | { readonly kind: 'number'; readonly value: Fraction }
  /** A letter, a Greek one by its command, with its index; `i`, `e`, `pi` and `infty` too. */
  | { readonly kind: 'symbol'; readonly name: string }
  | { readonly kind: 'sum'; readonly terms: readonly Expression[] }
  | { readonly kind: 'product'; readonly factors: readonly Expression[] }
  | { readonly kind: 'quotient'; readonly over: Expression; readonly under: Expression }
  | { readonly kind: 'power'; readonly base: Expression; readonly exponent: Expression }
  | { readonly kind: 'call'; readonly name: string; readonly of: readonly Expression[] };

import type Fraction from 'fraction.js';

/** Syntax tree of a formula as written. */
export type Expression =
  | { readonly kind: 'number'; readonly value: Fraction }
  /** A letter, or a Greek one by its command, with its index; also `i`, `e`, `pi` and `infty`. */
  | { readonly kind: 'symbol'; readonly name: string }
  | { readonly kind: 'sum'; readonly terms: readonly Expression[] }
  | { readonly kind: 'product'; readonly factors: readonly Expression[] }
  | { readonly kind: 'quotient'; readonly over: Expression; readonly under: Expression }
  | { readonly kind: 'power'; readonly base: Expression; readonly exponent: Expression }
  | { readonly kind: 'call'; readonly name: string; readonly of: readonly Expression[] };

import { compose, entries, lookUp, parsePolicy as parse, registry } from '@kv/core';
import type { AnyPiece, Piece, Policy, Registry } from '@kv/core';
import * as packages from './packages.ts';

/** The methods of this package, and the pieces that they are made of with all others of their packages. */
export const catalogue: Registry = registry(packages);

/**
 * A policy from text: `snapkv(window=16) | caote | topK`, by names of the catalogue, or of `known`.
 *
 * @throws KvError with what was expected: names, options of a name, or a selector at the end.
 */
export const parsePolicy = (text: Parameters<typeof parse>[0], known: Registry = catalogue): Policy =>
  parse(text, known);

/** Names of the methods, and of the scorers, which `topK` makes policies. */
export const policyNames: readonly string[] = [
  ...new Set(
    entries(catalogue)
      .filter(
        ({ factory: { description } }) =>
          description.kind === 'method' || (description.kind === 'scorer' && description.takes === 'nothing'),
      )
      .map(({ factory }) => factory.description.name),
  ),
];

/**
 * The policy of a text, `policy('snapkv(window=16) | caote | topK')`, or of one name with options as code writes them,
 * `policy('snapkv', { window: 16 })`. Scores at the end get `topK`.
 *
 * @throws KvError as `parsePolicy` does; for an option that a name does not have.
 */
export function policy(text: string, options?: object): Policy {
  return options === undefined ? parsePolicy(text) : named(text, options);
}

function named(name: string, options: object): Policy {
  const piece = lookUp(catalogue, name, true)(options) as Piece;
  return (
    piece.to === 'scores' || piece.to === 'weights'
      ? compose(piece as AnyPiece, packages['@kv/selectors-top-k'].topK())
      : piece
  ) as Policy;
}

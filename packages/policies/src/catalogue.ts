import { compose, entries, lookUp, parsePolicy as parse, registry } from '@kv/core';
import type { AnyPiece, Piece, Policy, Registry } from '@kv/core';
import * as packages from './packages.ts';

/** Registry of this package's methods and of every piece in the packages that they are made of. */
export const catalogue: Registry = registry(packages);

/**
 * Parses policy text such as `snapkv(window=16,kernel=17,pooling=max) | caote | topK`, with the names of the catalogue or of `known`.
 *
 * @throws KvError that says what was expected: a known name, an option that the name has, or a selector at the end.
 */
export const parsePolicy = (text: Parameters<typeof parse>[0], known: Registry = catalogue): Policy =>
  parse(text, known);

/** Names of the methods, and of the scorers, which `topK` turns into policies. */
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
 * Returns the policy of a text, `policy('snapkv(window=16,kernel=17,pooling=max) | caote | topK')`, or of one name with its options as an
 * object, `policy('snapkv', { window: 16 })`. Appends `topK` to a policy that ends in scores.
 * @param text a name with options, or a composition such as `snapkv(window=32) | caote | topK`
 * @throws KvError as `parsePolicy` does; for an option that a name does not have.
 */
export function policy(text: string, options?: object): Policy {
  return options === undefined ? parsePolicy(text) : named(text, options);
}

function named(name: string, options: object): Policy {
  const piece = lookUp(catalogue, name)(options) as Piece;
  return (
    piece.to === 'scores' || piece.to === 'weights'
      ? compose(piece as AnyPiece, packages['@kv/selectors-top-k'].topK())
      : piece
  ) as Policy;
}

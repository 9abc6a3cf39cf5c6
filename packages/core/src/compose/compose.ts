import { KvError } from '../tensor/errors.ts';
import { mergeHooks } from '../piece/atoms.ts';
import { withLabel } from '../piece/with-label.ts';
import { HAS, isPiece, NEEDS, otherProtocol, PHASES, PROTOCOL, readBy, TO_KEPT, TO_WEIGHTS } from '../piece/piece.ts';
import type { AnyPiece, CheckedPieces, ComposedPiece, IdentityPiece, Phase, Piece } from '../piece/piece.ts';

const common = (a: readonly Phase[], b: readonly Phase[]): Phase[] => a.filter((p) => b.includes(p));
const out = (a: Piece): readonly Phase[] => (a.to === 'same' ? a.from : [a.to]);
const named = (a: string, b: string): string => (a === '' ? b : b === '' ? a : `${a} ∘ ${b}`);

/** Maximum number of steps and hooks in a policy; an event runs each of them. */
export const MOST_PIECES = 64;

/** The identity of `compose`. */
export const id: IdentityPiece = /* @__PURE__ */ withLabel({
  protocol: PROTOCOL,
  from: PHASES,
  to: 'same',
  name: '',
  label: '',
  atoms: [],
});

function why(a: Piece, b: Piece): string {
  if (b.from.length === 1 && b.from[0] === 'start') {
    if (!a.from.includes('start'))
      return `'${a.name}' reads scores, but the scorer '${b.name}' stands after it: scorers come first`;
    if (out(a)[0] === 'kept')
      return `'${b.name}' is a scorer after '${a.name}', which already chose what to keep: scorers come first`;
    return `'${b.name}' is a second scorer after '${a.name}': join scorers with sum(), max() or weighted()`;
  }
  if (b.from.includes('start'))
    return `'${b.name}' shares slots out before scores are read: put it before the selector, not after '${a.name}'`;
  const asks = b.from.includes('scores') ? 'scores' : NEEDS[b.from[0]],
    toWeights = asks === NEEDS.weights && out(a).every((p) => p === 'scores');
  return `'${b.name}' needs ${asks}, but '${a.name}' before it leaves ${out(a)
    .map((p) => HAS[p])
    .join(' or ')}${toWeights ? TO_WEIGHTS : asks === NEEDS.kept ? TO_KEPT : ''}`;
}

function join(a: Piece, b: Piece): Piece {
  const fits = a.to === 'same' ? common(a.from, b.from).length > 0 : b.from.includes(a.to);
  if (!fits) throw new KvError('compose', why(a, b));
  const count = a.atoms.length + b.atoms.length;
  if (count > MOST_PIECES)
    throw new KvError(
      'compose',
      `expected at most ${MOST_PIECES} steps and hooks in a policy, got ${count}: leave some out`,
    );
  const name = named(a.name, b.name);
  return withLabel({
    protocol: PROTOCOL,
    name,
    label: named(a.label, b.label),
    from: a.to === 'same' ? common(a.from, b.from) : a.from,
    to: b.to === 'same' ? a.to : b.to,
    atoms: mergeHooks(name, [...a.atoms, ...b.atoms]),
  });
}

/**
 * Composes pieces, left to right, into one larger piece. Associative, with `id` as identity.
 *
 * @throws KvError with the sentence that the compiler also shows, if a piece has no input to work on where it is
 * placed.
 * @example
 * ```ts
 * const policy = compose(snapkv({ window: 16 }), caote(), topK());
 * ```
 */
export function compose<const P extends readonly AnyPiece[]>(
  ...pieces: number extends P['length']
    ? P
    : CheckedPieces<P> extends infer C extends readonly unknown[]
      ? { [K in keyof P]: K extends keyof C ? C[K] : P[K] }
      : never
): ComposedPiece<P> {
  let acc: Piece = id;
  for (const [i, piece] of (pieces as readonly unknown[]).entries()) {
    const other = otherProtocol(piece, (piece as Piece | undefined)?.name ?? `argument ${i + 1}`);
    if (other) throw new KvError('compose', other);
    if (!isPiece(piece))
      throw new KvError(
        'compose',
        `argument ${i + 1} must be a piece ({ protocol: ${PROTOCOL}, atoms, ... }), got ${describe(piece)}`,
      );
    acc = join(acc, piece);
  }
  return acc as ComposedPiece<P>;
}

const describe = (x: unknown): string =>
  typeof x === 'function'
    ? `the function ${x.name || '(anonymous)'}: call it, as in ${x.name || 'piece'}()`
    : typeof x === 'string'
      ? readBy(x)
      : x === null
        ? 'null'
        : typeof x;

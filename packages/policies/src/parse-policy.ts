import { compose, KvError } from '@kv/core';
import type { AnyPiece, Piece, Policy } from '@kv/core';
import { policies } from './catalogue.ts';
import { pieces } from './pieces.ts';
import type { AnyScorer, OptionValue, OptionValues, PieceEntry, Term } from './pieces.ts';

/**
 * A policy from text: a name of this package with options, as in `snapkv(window=16,kernel=5)`, or a composition as labels print
 * it, as in `snapkv(window=32) ∘ caote ∘ pyramidal ∘ topK`.
 *
 * @throws KvError with what was expected: names, options of a name, or a selector at the end.
 */
export function parsePolicy(text: string): Policy {
  const parts = split(text, '∘');
  if (parts.length > 1) return ending(parsePieces(parts));
  const { name, args } = called(text);
  const entry = Object.hasOwn(policies, name) ? policies[name] : undefined;
  if (!entry) throw new KvError('policy', `expected pieces joined by ∘, or NAME or NAME(option=value,...) with one of ${Object.keys(policies).join(', ')}, got '${text}'`);
  return entry.make(Object.fromEntries(args.map((arg) => option(name, entry.options, arg))));
}

const ending = (piece: Piece): Policy => {
  if (piece.to !== 'kept') throw new KvError('policy', `'${piece.label}' leaves no kept slots, expected a selector such as topK at its end`);
  return piece as Policy;
};
const parsePieces = (parts: readonly string[]): Piece => compose(...parts.map((part) => parsePiece(part) as AnyPiece)) as Piece;

function parsePiece(text: string): Piece {
  const { name, args } = called(text);
  const entry = Object.hasOwn(pieces, name) ? pieces[name] : undefined;
  if (!entry) throw new KvError('policy', `expected one of the pieces ${Object.keys(pieces).join(', ')}, got '${text.trim()}'`);
  const inner = args.filter((arg) => isTerm(entry, arg));
  if (entry.around === 'by' && inner.length !== 1) throw new KvError(name, `expected one scorer as by=SCORER, got ${inner.length}`);
  return entry.make(Object.fromEntries(args.filter((arg) => !inner.includes(arg)).map((arg) => option(name, entry.options, arg))), inner.map((arg) => term(entry, arg)));
}

const isTerm = ({ around }: PieceEntry, arg: string): boolean => (around === 'by' ? /^by=/.test(arg) : around !== undefined);
function term({ around }: PieceEntry, arg: string): Term {
  if (around !== 'weighted') return [1, parsePieces(split(arg.replace(/^by=/, ''), '∘')) as AnyScorer];
  const [weight = '', ...rest] = arg.split('*'), value = Number(weight);
  if (rest.length === 0 || weight === '' || !Number.isFinite(value)) throw new KvError('weighted', `expected WEIGHT*SCORER, got '${arg}'`);
  return [value, parsePieces(split(rest.join('*'), '∘')) as AnyScorer];
}

/** `name(a,b)` as the name and its arguments. */
function called(text: string): { readonly name: string; readonly args: readonly string[] } {
  const [, name = '', list = ''] = /^\s*([\w-]+)\s*(?:\(([^]*)\))?\s*$/.exec(text) ?? [];
  return { name, args: list.trim() === '' ? [] : split(list, ',') };
}

/** Parts between separators that stand outside all parentheses. */
function split(text: string, separator: string): string[] {
  const parts = [''];
  let depth = 0;
  for (const c of text) {
    depth += c === '(' ? 1 : c === ')' ? -1 : 0;
    if (c === separator && depth === 0) parts.push(''); else parts[parts.length - 1] += c;
    if (depth < 0) break;
  }
  if (depth !== 0) throw new KvError('policy', `expected as many '(' as ')', got '${text.trim()}'`);
  return parts.map((part) => part.trim());
}

/** One `key=value` in the type of its default. */
function option(at: string, known: OptionValues, arg: string): readonly [key: string, value: OptionValue] {
  const [key = '', value = '', more] = arg.split('=').map((x) => x.trim());
  const like = Object.hasOwn(known, key) ? known[key] : undefined;
  if (like === undefined || value === '' || more !== undefined) {
    const said = Object.entries(known).map(([k, v]) => `${k}=${v}`).join(', ');
    throw new KvError(at, `expected options ${said || '(none)'}, got '${arg}'`);
  }
  if (typeof like === 'string') return [key, value];
  if (typeof like === 'boolean' && (value === 'true' || value === 'false')) return [key, value === 'true'];
  if (typeof like === 'number' && Number.isFinite(Number(value))) return [key, Number(value)];
  throw new KvError(at, `${key} must be ${typeof like === 'boolean' ? 'true or false' : 'a number'}, got '${value}'`);
}

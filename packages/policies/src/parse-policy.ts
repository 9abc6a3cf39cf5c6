import { compose, KvError } from '@kv/core';
import type { AnyPiece, Piece, Policy } from '@kv/core';
import { policies } from './catalogue.ts';
import { pieces } from './pieces.ts';
import type { AnyScorer, OptionValue, OptionValues, PieceEntry, Term } from './pieces.ts';
import { excerpt, optionValue, policyCalls, printArg, printCalls } from './policy-text.ts';
import type { Arg, Call } from './policy-text.ts';

/** A piece or policy from elsewhere, under the name that texts use. */
export interface FoundPiece extends Omit<PieceEntry, 'source'> {
  /** It takes options beyond those listed: each is read by its look. @defaultValue false */
  readonly open?: boolean;
}
export interface ParseOptions {
  /** Looks up a name that this package does not have. */
  readonly find?: (name: string) => FoundPiece | undefined;
}
/** The name that a text was refused for. */
export interface UnknownName {
  readonly sort: 'policy' | 'piece' | 'option' /** Where it stood. */;
  readonly at: string;
  readonly name: string;
  readonly known: readonly string[];
}

/**
 * A policy from text: a name with options, as in `snapkv(window=16,kernel=5)`, or a composition as labels print it, as
 * in
 * `weighted(0.5*recency,1*snapkv(window=32)) ∘ pyramidal ∘ topK`. The names are this package's, then what `find` knows.
 *
 * @throws KvError with what was expected: names, options of a name, or a selector at the end. `unknownName` says which
 * name was not known.
 */
export function parsePolicy(text: string, options: ParseOptions = {}): Policy {
  const calls = policyCalls(text),
    [first] = calls;
  const listed = calls.length === 1 ? own(policies, first.name) : undefined;
  return ending(listed ? make(first, listed, options) : chain(calls, options, calls.length === 1));
}

/** Of an error of `parsePolicy`: the name that it does not know, undefined where it is about something else. */
export const unknownName = (error: unknown): UnknownName | undefined =>
  KvError.is(error) && 'unknown' in error ? (error.unknown as UnknownName) : undefined;
const refusal = (unknown: UnknownName, sentence: string): KvError =>
  Object.assign(new KvError(unknown.at, sentence), { unknown });

const own = <T>(entries: Readonly<Record<string, T>>, name: string): T | undefined =>
  Object.hasOwn(entries, name) ? entries[name] : undefined;

function ending(piece: Piece): Policy {
  if (!piece.from.includes('start'))
    throw new KvError(
      'policy',
      `'${piece.label}' starts from ${piece.from.join(' or ')}, expected a scorer such as knorm at its start`,
    );
  if (piece.to !== 'kept' && !(piece.to === 'same' && piece.from.includes('kept')))
    throw new KvError('policy', `'${piece.label}' leaves no kept slots, expected a selector such as topK at its end`);
  return piece as Policy;
}

function chain(calls: readonly Call[], options: ParseOptions, alone = false): Piece {
  const made = calls.map((call): AnyPiece => {
    const entry = own(pieces, call.name) ?? options.find?.(call.name);
    if (entry) return make(call, entry, options);
    const known = Object.keys(alone ? policies : pieces),
      sort = alone ? 'policy' : 'piece';
    throw refusal(
      { sort, at: 'policy', name: call.name, known },
      `expected ${alone ? 'pieces joined by ∘, or NAME or NAME(option=value,...) with one of' : 'one of the pieces'} ${known.join(', ')}, got ${excerpt(printCalls([call]))}`,
    );
  });
  return made.length === 1 ? made[0] : (compose(...made) as Piece);
}

function make({ name, args = [] }: Call, entry: FoundPiece, options: ParseOptions): Piece {
  const { around } = entry,
    given = new Map<string, OptionValue>(),
    terms: Term[] = [];
  for (const arg of args) {
    if (around !== undefined && arg.key === (around === 'by' || around === 'of' ? around : undefined))
      terms.push(term(name, arg, around === 'weighted', options));
    else {
      const [key, value] = option(name, entry, arg);
      if (given.has(key)) throw new KvError(name, `expected every option once, got '${key}' twice`);
      given.set(key, value);
    }
  }
  const one = around === 'by' ? 'scorer as by=SCORER' : around === 'of' ? 'policy as of=POLICY' : undefined;
  if (one && terms.length !== 1) throw new KvError(name, `expected one ${one}, got ${terms.length}`);
  return entry.make(Object.fromEntries(given), terms);
}

function term(at: string, { calls }: Arg, weighted: boolean, options: ParseOptions): Term {
  if (!weighted) return [1, chain(calls, options) as AnyScorer];
  const [first, ...rest] = calls,
    [, weight = '', name = ''] = /^([^*]*)\*([^]*)$/.exec(first.name) ?? [],
    value = optionValue({ name: weight.trim() });
  if (first.quoted || typeof value !== 'number' || name.trim() === '')
    throw new KvError(at, `expected WEIGHT*SCORER, got ${excerpt(printCalls(calls))}`);
  return [value, chain([{ ...first, name: name.trim() }, ...rest], options) as AnyScorer];
}

/** One `key=value` in the type of its default, or, where none is listed, by its look. */
function option(
  at: string,
  { options: known, open = false }: FoundPiece,
  arg: Arg,
): readonly [key: string, value: OptionValue] {
  const {
      key = '',
      calls: [first, ...more],
    } = arg,
    got = excerpt(printArg(arg)),
    like = own(known, key);
  if (key === '' && open) throw new KvError(at, `expected an option as name=value, got ${got}`);
  if (key === '' || (like === undefined && !open)) {
    const sentence = `expected options ${said(known) || '(none)'}, got ${got}`;
    throw key === ''
      ? new KvError(at, sentence)
      : refusal({ sort: 'option', at, name: key, known: Object.keys(known) }, sentence);
  }
  const value = more.length === 0 ? optionValue(first) : undefined;
  if (value !== undefined && typeof like === 'string') return [key, first.name];
  if (value !== undefined && (like === undefined || typeof value === typeof like)) return [key, value];
  const want =
    like === undefined || typeof like === 'string'
      ? 'one value (text with any of ()=,"∘ stands in double quotes)'
      : typeof like === 'boolean'
        ? 'true or false'
        : `a number such as ${like}`;
  throw new KvError(at, `${key} must be ${want}, got ${excerpt(printCalls(arg.calls))}`);
}

const said = (known: OptionValues): string =>
  Object.entries(known)
    .map(([key, value]) => `${key}=${value}`)
    .join(', ');

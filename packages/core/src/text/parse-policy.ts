import { compose, MOST_PIECES } from '../compose/compose.ts';
import type { AnyFactory } from '../piece/declare.ts';
import { KvError } from '../tensor/errors.ts';
import { showValue } from '../piece/option.ts';
import type { OptionForm } from '../piece/option.ts';
import { isPiece } from '../piece/piece.ts';
import type { AnyPiece, Piece, Policy } from '../piece/piece.ts';
import { excerpt, policyCalls, printCalls } from './policy-calls.ts';
import type { Arg, PolicyCall } from './policy-calls.ts';
import { lookUp } from './registry.ts';
import type { Registry } from './registry.ts';
import { presentName } from './renamed.ts';

/**
 * Parses a policy from text, or from the calls that `policyCalls` returned for it: names with options, joined by `∘` or
 * `|`, in the form of labels: `weighted(0.5*recency,1*snapkv(window=32)) ∘ linearBudgets ∘ topK`. A text that ends in
 * scores gets `topK`.
 *
 * @remarks Names are looked up in the registry; nothing is imported.
 * @throws KvError with what was expected: names, options of a name, a selector at the end, or at most 64 pieces.
 */
export function parsePolicy(text: string | readonly PolicyCall[], known: Registry): Policy {
  if (typeof text !== 'string' && !Array.isArray(text))
    throw new KvError('policy', `expected the text of a policy, such as 'snapkv | topK', got ${showValue(text)}`);
  const calls = typeof text === 'string' ? policyCalls(text) : text;
  const piece = chain(calls, namesOf(known), true);
  if (!piece.from.includes('start'))
    throw new KvError(
      'policy',
      `'${piece.label}' starts from ${piece.from.join(' or ')}, expected a scorer such as knorm at its start`,
    );
  if (piece.to === 'scores' || piece.to === 'weights')
    return compose(piece as AnyPiece, lookUp(known, 'topK')() as AnyPiece) as Policy;
  if (piece.to !== 'kept' && !(piece.to === 'same' && piece.from.includes('kept')))
    throw new KvError('policy', `'${piece.label}' leaves no kept slots, expected a selector such as topK at its end`);
  return piece as Policy;
}

/** What the names of a text stand for. */
function namesOf(known: Registry) {
  let pieces = 0;
  return {
    has: (name: string) => known.has(name),
    /**
     * Looks up a piece and counts it.
     *
     * @param alone the name is the whole text.
     * @throws KvError for an unknown or former name, and for more pieces than a policy may have.
     */
    find(name: string, alone = false): AnyFactory {
      if (++pieces > MOST_PIECES)
        throw new KvError('policy', `expected at most ${MOST_PIECES} pieces, got more: leave some out`);
      const factory = lookUp(known, name);
      const present = alone || factory.description.kind !== 'method' ? undefined : presentName(name);
      if (present === undefined) return factory;
      throw new KvError(
        'policy',
        `expected a piece, got the method '${name}': its piece is named ${present} now, and '${known.get(name)?.[0].package}:${name}' is the method`,
      );
    },
  };
}
type Names = ReturnType<typeof namesOf>;

/** @param whole the calls are the whole text, not the inside of brackets. */
function chain(calls: readonly PolicyCall[], names: Names, whole = false): Piece {
  const pieces = calls.map((call): AnyPiece => {
    if (call.name.trim() === '')
      throw new KvError('policy', `expected the name of a method or piece, got ${excerpt(printCalls([call]))}`);
    const words = call.name.split(/\s+/);
    if (words.length > 1 && words.every((word) => names.has(word)))
      throw new KvError(
        'policy',
        `expected ${whole ? '' : "',' or "}'|' between '${words[0]}' and '${words[1]}', got ${excerpt(call.name)}`,
      );
    const factory = names.find(call.name, whole && calls.length === 1);
    const piece = made(call, factory, names);
    if (isPiece(piece)) return piece;
    throw new KvError('policy', `expected a piece, got the ${factory.description.kind} '${call.name}'`);
  });
  return pieces.length === 1 ? pieces[0] : compose(...(pieces as readonly AnyPiece[]));
}

/** Calls a factory with the arguments of a call. */
function made({ name, args = [] }: PolicyCall, factory: AnyFactory, names: Names): unknown {
  const { takes, options } = factory.description;
  const inside: unknown[] = [];
  const chosen = new Map<string, unknown>();
  if ((takes === 'scorer' || takes === 'policy') && !args.some(({ key }) => key === undefined))
    throw new KvError(
      name,
      `expected a ${takes} first, got ${args[0]?.key === undefined ? 'nothing' : `the option ${excerpt(args[0].key)}`}`,
    );
  for (const arg of args) {
    const { key, calls } = arg;
    if (key === undefined) {
      if (takes === 'nothing')
        throw new KvError(
          name,
          `expected options ${Object.keys(options).join(', ') || '(none)'} as option=value, got ${excerpt(printCalls(calls))}`,
        );
      inside.push(takes === 'terms' ? term(name, calls, names) : chain(calls, names));
    } else if ((takes === 'scorers' || takes === 'terms') && !Object.hasOwn(options, key))
      throw new KvError(name, `has no option ${excerpt(key)}: it has none`);
    else if (chosen.has(key)) throw new KvError(name, `expected every option once, got ${excerpt(key)} twice`);
    else chosen.set(key, optionValue(name, arg, Object.hasOwn(options, key) ? options[key].form : undefined, names));
  }
  if (takes !== 'scorers' && takes !== 'terms' && inside.length > 1)
    throw new KvError(name, `expected one ${takes}, got ${inside.length}`);
  try {
    return factory(...inside, ...(chosen.size > 0 ? [Object.fromEntries(chosen)] : []));
  } catch (cause) {
    if (KvError.is(cause)) throw cause;
    const said = cause instanceof Error ? `${cause.name}: ${cause.message}` : showValue(cause);
    throw new KvError(name, `expected a piece from these options, got ${said}`);
  }
}

const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;
const numberOf = ({ name, quoted }: PolicyCall): number | string =>
  !quoted && NUMBER.test(name) && Number.isFinite(Number(name)) ? Number(name) : name;
const flagOf = ({ name, quoted }: PolicyCall): boolean | string =>
  !quoted && (name === 'true' || name === 'false') ? name === 'true' : name;

/**
 * Reads a value by the form of the option, without one by the look of the text. The factory refuses what does not fit.
 */
function optionValue(
  at: string,
  { key, calls: [first, ...more] }: Arg,
  form: OptionForm | undefined,
  names: Names,
): unknown {
  if (form?.sort === 'part' && more.length === 0) return made(first, names.find(first.name), names);
  if (more.length > 0 || first.args)
    throw new KvError(at, `${key} must be ${form?.want ?? 'one value'}, got ${excerpt(printCalls([first, ...more]))}`);
  if (form?.sort === 'number') return numberOf(first);
  if (form?.sort === 'flag') return flagOf(first);
  const looks = flagOf(first);
  return form || typeof looks === 'boolean' ? (form ? first.name : looks) : numberOf(first);
}

/** Parses `WEIGHT*SCORER`. */
function term(at: string, calls: readonly PolicyCall[], names: Names): readonly [weight: number, scorer: Piece] {
  const [first, ...rest] = calls;
  const [, weight = '', name = ''] = /^([^*]*)\*([^]*)$/.exec(first.name) ?? [];
  if (first.quoted || !NUMBER.test(weight.trim()) || name.trim() === '')
    throw new KvError(at, `expected WEIGHT*SCORER, got ${excerpt(printCalls(calls))}`);
  return [Number(weight), chain([{ ...first, name: name.trim() }, ...rest], names)];
}

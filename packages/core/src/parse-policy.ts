import { compose, MOST_PIECES } from './compose.ts';
import type { AnyFactory } from './declare.ts';
import { KvError } from './errors.ts';
import { shown } from './option.ts';
import type { Form } from './option.ts';
import { isPiece } from './piece.ts';
import type { AnyPiece, Piece, Policy } from './piece.ts';
import { excerpt, policyCalls, printCalls } from './policy-calls.ts';
import type { Arg, Call } from './policy-calls.ts';
import { lookUp } from './registry.ts';
import type { Registry } from './registry.ts';

/**
 * A policy from text: names with options, `∘` or `|` between them, as labels print it:
 * `weighted(0.5*recency,1*snapkv(window=32)) ∘ pyramidal ∘ topK`. A name alone is rather a method; a text that ends in
 * scores gets `topK`.
 *
 * @remarks The text names what the registry holds, and nothing is imported. Labels of older versions, with a scorer
 * behind `by=` or a policy behind `of=`, are read too.
 * @throws KvError with what was expected: names, options of a name, a selector at the end, or at most 64 pieces.
 */
export function parsePolicy(text: string, known: Registry): Policy {
  const calls = policyCalls(text);
  const piece = chain(calls, looking(known), calls.length === 1);
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

/** What names of a text stand for. */
type Look = (name: string, alone?: boolean) => AnyFactory;
/** Looks names up, of so many pieces within one another or behind one another as a policy may have. */
function looking(known: Registry): Look {
  let pieces = 0;
  return (name, alone) => {
    if (++pieces > MOST_PIECES)
      throw new KvError('policy', `expected at most ${MOST_PIECES} pieces, got more: leave some out`);
    return lookUp(known, name, alone);
  };
}

function chain(calls: readonly Call[], look: Look, alone = false): Piece {
  const pieces = calls.map((call): AnyPiece => {
    if (call.name.trim() === '')
      throw new KvError('policy', `expected the name of a method or piece, got ${excerpt(printCalls([call]))}`);
    const factory = look(call.name, alone);
    const piece = made(call, factory, look);
    if (isPiece(piece)) return piece;
    throw new KvError('policy', `expected a piece, got the ${factory.description.kind} '${call.name}'`);
  });
  return pieces.length === 1 ? pieces[0] : compose(...(pieces as readonly AnyPiece[]));
}

/** Where older labels name what stands inside. */
const INSIDE: Readonly<Record<string, string>> = { scorer: 'by', policy: 'of' };

/** What a factory makes of the arguments of a call. */
function made({ name, args = [] }: Call, factory: AnyFactory, look: Look): unknown {
  const { takes, options } = factory.description;
  const inside: unknown[] = [];
  const chosen = new Map<string, unknown>();
  for (const arg of args) {
    const { key, calls } = arg;
    if (key === undefined || (key === INSIDE[takes] && !Object.hasOwn(options, key))) {
      if (takes === 'nothing')
        throw new KvError(
          name,
          `expected options ${Object.keys(options).join(', ') || '(none)'} as option=value, got ${excerpt(printCalls(calls))}`,
        );
      inside.push(takes === 'terms' ? term(name, calls, look) : chain(calls, look));
    } else if (chosen.has(key)) throw new KvError(name, `expected every option once, got ${excerpt(key)} twice`);
    else chosen.set(key, optionValue(name, arg, Object.hasOwn(options, key) ? options[key].form : undefined, look));
  }
  if (takes !== 'scorers' && takes !== 'terms' && inside.length > 1)
    throw new KvError(name, `expected one ${takes}, got ${inside.length}`);
  if ((takes === 'scorer' || takes === 'policy') && inside.length === 0)
    throw new KvError(name, `expected a ${takes} first, got nothing`);
  try {
    return factory(...inside, ...(chosen.size > 0 ? [Object.fromEntries(chosen)] : []));
  } catch (cause) {
    if (KvError.is(cause)) throw cause;
    const said = cause instanceof Error ? `${cause.name}: ${cause.message}` : shown(cause);
    throw new KvError(name, `expected a piece from these options, got ${said}`);
  }
}

const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;
const numberOf = ({ name, quoted }: Call): number | string =>
  !quoted && NUMBER.test(name) && Number.isFinite(Number(name)) ? Number(name) : name;
const flagOf = ({ name, quoted }: Call): boolean | string =>
  !quoted && (name === 'true' || name === 'false') ? name === 'true' : name;

/** By the form of the option; without one by the look of the text. What does not fit, the factory refuses. */
function optionValue(at: string, { key, calls: [first, ...more] }: Arg, form: Form | undefined, look: Look): unknown {
  if (form?.sort === 'part' && more.length === 0) return made(first, look(first.name), look);
  if (more.length > 0 || first.args)
    throw new KvError(at, `${key} must be ${form?.want ?? 'one value'}, got ${excerpt(printCalls([first, ...more]))}`);
  if (form?.sort === 'number') return numberOf(first);
  if (form?.sort === 'flag') return flagOf(first);
  const looks = flagOf(first);
  return form || typeof looks === 'boolean' ? (form ? first.name : looks) : numberOf(first);
}

/** `WEIGHT*SCORER`. */
function term(at: string, calls: readonly Call[], look: Look): readonly [weight: number, scorer: Piece] {
  const [first, ...rest] = calls;
  const [, weight = '', name = ''] = /^([^*]*)\*([^]*)$/.exec(first.name) ?? [];
  if (first.quoted || !NUMBER.test(weight.trim()) || name.trim() === '')
    throw new KvError(at, `expected WEIGHT*SCORER, got ${excerpt(printCalls(calls))}`);
  return [Number(weight), chain([{ ...first, name: name.trim() }, ...rest], look)];
}

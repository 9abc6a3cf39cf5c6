import { KvError } from '../tensor/errors.ts';
import { expectDeclared } from './expect-declared.ts';
import { withLabel } from './with-label.ts';
import { print, settle, showValue } from './option.ts';
import type { OptionValues, LabelledPart, Options, ResolvedOptions } from './option.ts';
import { isPiece, PROTOCOL } from './piece.ts';
import type { Phase, Piece } from './piece.ts';
import { signalKey } from './signals.ts';
import type { AnySignal } from './signals.ts';

/** Arguments of a piece before its options. */
export type PieceArguments = 'nothing' | 'scorer' | 'scorers' | 'terms' | 'policy';
/** The kinds of the algebra. A method is a named composition; any other word is a part, such as a detector. */
export type PieceKind = 'scorer' | 'transform' | 'unit' | 'allocator' | 'selector' | 'demotion' | 'hook' | 'method';

/** A piece as data, from which labels, texts, forms, tables and lists are made. */
export interface Description<O extends Options = Options> {
  /** Version of core's protocol that the piece was made for. */
  readonly protocol: typeof PROTOCOL;
  /** Name in policy texts. */
  readonly name: string;
  /** Kind of the piece; `'method'` for a named composition, another word for a part such as a detector. */
  readonly kind: PieceKind | (string & {});
  /** The paper and its equation, or another origin. */
  readonly source: string;
  /** What it does, in one sentence. */
  readonly says: string;
  /** Declared options, by name. */
  readonly options: O;
  /** Arguments before the options. */
  readonly takes: PieceArguments;
  /** Phases it accepts, and the phase it leaves; absent for methods and parts. */
  readonly from?: readonly Phase[];
  /** Phase that it leaves; `'same'` if it leaves the phase it found. */
  readonly to?: Phase | 'same';
  /** Keys of the signals that it reads with its default options. */
  readonly signals: readonly string[];
}
type Call<O extends Options, P, I extends readonly unknown[]> = [keyof O] extends [never]
  ? (...inside: I) => P
  : (...args: [...inside: I, options?: OptionValues<O>]) => P;
/** A function that makes a piece, with the piece's description. */
export type Factory<O extends Options, P, I extends readonly unknown[] = []> = Call<O, P, I> & {
  readonly description: Description<O>;
  /** Its options, for a method that passes them on. */
  readonly options: O;
};
/** A factory of any piece, method or part. */
export type AnyFactory = ((...args: any[]) => unknown) & { readonly description: Description };

/**
 * Whether a value is a factory. Recognised by its description, not by class, so that two copies of core agree. Reads
 * properties and calls nothing.
 */
export function isFactory(x: unknown): x is AnyFactory {
  const description: unknown = typeof x === 'function' && 'description' in x ? x.description : undefined;
  return typeof description === 'object' && description !== null && (description as Description).protocol === PROTOCOL;
}

/** Fields of a declaration apart from its name. */
export interface DeclarationFields<O extends Options> {
  /** The paper and its equation, or another origin. @defaultValue '', for what is not published */
  readonly source?: string;
  /** What it does, in one sentence. @defaultValue '' */
  readonly says?: string;
  /** Options by name, made with `number`, `count`, `flag` and the like. @defaultValue none */
  readonly options?: O;
  /** Checks options against each other: returns a sentence about what is wrong, or nothing. */
  readonly check?: (options: ResolvedOptions<O>) => string | false | undefined;
}

/** What `factory` adds to a declaration: kind, arguments and phases. */
interface Role {
  readonly kind: Description['kind'];
  readonly takes?: PieceArguments;
  readonly from?: readonly Phase[];
  readonly to?: Phase | 'same';
  /** Fields of its declarations, in addition to the common ones. @defaultValue they are not checked */
  readonly fields?: readonly string[];
}

const WANTED: Readonly<Record<PieceArguments, string>> = {
  nothing: 'options only',
  scorer: 'a scorer first',
  policy: 'a policy first',
  scorers: 'scorers',
  terms: 'pairs of a weight and a scorer',
};
const ARITY: Readonly<Record<PieceArguments, number>> = {
  nothing: 0,
  scorer: 1,
  policy: 1,
  scorers: Infinity,
  terms: Infinity,
};

/**
 * Returns a factory made of a declaration and a function of resolved options.
 *
 * @param signals of the result, for the description.
 * @throws KvError, from the factory, in one sentence for arguments that do not fit.
 */
export function factory<O extends Options, P extends LabelledPart | Piece, I extends readonly unknown[] = []>(
  name: string,
  declared: DeclarationFields<O>,
  { kind, takes = 'nothing', from, to, fields }: Role,
  make: (options: ResolvedOptions<O>, label: string, ...inside: I) => P,
  signals: (options: ResolvedOptions<O>) => readonly AnySignal[] = () => [],
): Factory<O, P, I> {
  expectDeclared(name, declared, fields);
  const { source = '', says = '', options = {} as O, check } = declared;
  const arity = ARITY[takes];
  const call = (...args: readonly unknown[]): P => {
    const inside = arity === Infinity ? args : args.slice(0, arity);
    if (inside.length < Math.min(arity, 1) && takes !== 'scorers' && takes !== 'terms') throw refused(undefined);
    for (const x of inside) if (!isPiece(takes === 'terms' ? pieceOf(x) : x)) throw refused(x);
    if (args.length > arity + 1)
      throw new KvError(name, `expected one object of options, got ${args.length - arity} arguments`);
    const settled = settle(name, options, args[arity]);
    const wrong = check?.(settled);
    if (wrong) throw new KvError(name, wrong);
    return withLabel(make(settled, print(name, options, settled, inside.map(labelOf)), ...(inside as unknown as I)));
  };
  const refused = (x: unknown): KvError => {
    if (takes === 'terms' && Array.isArray(x) && isPiece(x[1]))
      return new KvError(name, `weight must be a finite number, got ${showValue(x[0])}`);
    const got = x === undefined ? 'nothing' : typeof x === 'function' ? `${showValue(x)}: call it` : showValue(x);
    return new KvError(name, `expected ${WANTED[takes]}, got ${got}`);
  };
  const description: Description<O> = {
    protocol: PROTOCOL,
    name,
    kind,
    source,
    says,
    options,
    takes,
    ...(from && { from }),
    ...(to && { to }),
    signals: [...new Set(signals(settle(name, options, undefined)).map(signalKey))],
  };
  return Object.assign(Object.defineProperty(call, 'name', { value: name }), {
    description,
    options,
  }) as unknown as Factory<O, P, I>;
}
const pieceOf = (term: unknown): unknown =>
  Array.isArray(term) && term.length === 2 && Number.isFinite(term[0]) ? term[1] : undefined;
const labelOf = (x: unknown): string => (Array.isArray(x) ? `${x[0]}*${(x[1] as Piece).label}` : (x as Piece).label);

/**
 * Declares a method of a paper: a named composition, with the options that it passes on.
 *
 * @param about `source` is a text, or the piece whose source it shares.
 */
export const method = <P extends Piece<any, any, any>, O extends Options = {}>(
  name: string,
  { source = '', ...about }: Omit<DeclarationFields<O>, 'source'> & { readonly source?: string | AnyFactory },
  make: (options: ResolvedOptions<O>) => P,
): Factory<O, P> =>
  factory<O, P>(
    name,
    { ...about, source: typeof source === 'function' ? source.description.source : source },
    { kind: 'method' },
    (o, called) => ({ ...made(name, make(o)), methodName: called }),
    (o) => made(name, make(o)).atoms.flatMap(({ needs }) => needs),
  );

/** @throws KvError unless a method's function returned a piece */
function made<P extends Piece>(name: string, piece: P): P {
  if (isPiece(piece)) return piece;
  throw new KvError(name, `expected a piece of its function, got ${showValue(piece)}`);
}

/** A part that pieces take as an option, such as a detector of anchors. */
export interface OptionPart<K extends string, F> extends LabelledPart<K> {
  /** What the part does, such as finding anchors. */
  readonly run: F;
  /** Signal that the part reads in addition to the piece's own. */
  readonly signal?: AnySignal | undefined;
}
/** Declares a kind of parts: `detector = partOf<'detector', Find>('detector')`. */
export const partOf =
  <K extends string, F>(kind: K) =>
  <O extends Options = {}>(
    name: string,
    about: DeclarationFields<O> & { readonly needs?: (options: ResolvedOptions<O>) => AnySignal | undefined },
    make: (options: ResolvedOptions<O>) => F,
  ): Factory<O, OptionPart<K, F>> => {
    const signal = (o: ResolvedOptions<O>): AnySignal | undefined => about.needs?.(o);
    return factory<O, OptionPart<K, F>>(
      name,
      about,
      { kind },
      (o, label) => ({ kind, label, run: make(o), signal: signal(o) }),
      (o) => [signal(o) ?? []].flat(),
    );
  };

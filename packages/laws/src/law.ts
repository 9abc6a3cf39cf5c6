import fc from 'fast-check';
import { showValue } from '@kv/core/engine';
import type { AnySignal, Ops } from '@kv/core';
import type { Layer } from './scene.ts';

/** A named claim about a subject, checked on random cases: it throws with the smallest counterexample found. */
export type Law = () => void | Promise<void>;
/** The laws of a kind, by name. */
export type Suite = Readonly<Record<string, Law>>;

/** Options of every suite of laws. */
export interface LawOptions {
  /**
   * Largest difference allowed, relative to the largest magnitude of the two results (absolute below 1). @defaultValue
   * 1e-5
   */
  readonly tolerance?: number | undefined;
  /** Cases per law. @defaultValue fast-check's own, 100 unless configured */
  readonly runs?: number | undefined;
  /**
   * Values of signals that the laws do not know, or replacements for those that they do. @defaultValue those of the
   * scene
   */
  readonly signals?: ((signal: AnySignal, layer: Layer, ops: Ops) => unknown) | undefined;
}
export const TOLERANCE = 1e-5;

/**
 * Turns a property into a law whose error starts with the cause: what was expected and got, then the smallest case and
 * how to run it again. Async properties return a promise, which a test runner awaits.
 */
export const law =
  <T>(property: fc.IRawProperty<T>, { runs }: LawOptions): Law =>
  () => {
    const run: fc.RunDetails<T> | Promise<fc.RunDetails<T>> = fc.check(property, {
      ...seeded(),
      ...(runs !== undefined && { numRuns: runs }),
    });
    return run instanceof Promise ? run.then(judge) : judge(run);
  };

/** Returns the seed that FC_SEED names, where there is an environment: what a law that failed asks for. */
function seeded(): { readonly seed?: number } {
  const { process } = globalThis as {
      readonly process?: { readonly env?: Readonly<Record<string, string | undefined>> };
    },
    text = process?.env?.['FC_SEED'];
  if (text === undefined || text === '') return {};
  const seed = Number(text);
  if (!Number.isInteger(seed)) throw new Error(`laws: expected FC_SEED as a whole number, got ${showValue(text)}`);
  return { seed };
}

function judge<T>({ failed, errorInstance, counterexample, seed, numShrinks }: fc.RunDetails<T>): void {
  if (!failed) return;
  if (counterexample === null) throw new Error('too few random cases fit this law: none was tried to its end');
  const cause = errorInstance instanceof Error ? errorInstance.message : String(errorInstance);
  const smallest = fc.stringify(counterexample);
  throw new Error(
    `${cause}\nThe smallest case, after ${numShrinks} steps: ${smallest.length > MOST ? `${smallest.slice(0, MOST)} …` : smallest}\nAgain with FC_SEED=${seed} in the environment.`,
    { cause: errorInstance },
  );
}
/** Characters of a case that are shown. */
const MOST = 600;

/** A claim about subjects of a kind: a property of each. */
export type Claim<Subject, O extends LawOptions = LawOptions> = (
  subject: Subject,
  options?: O,
) => fc.IRawProperty<unknown>;
/** Claims by name. */
export type Claims<Subject, O extends LawOptions = LawOptions> = Readonly<Record<string, Claim<Subject, O>>>;

/** Options that every suite has. */
const COMMON: readonly (keyof LawOptions)[] = ['tolerance', 'runs', 'signals'];
/** Options of a kind alone. */
type OwnOptions<O> = readonly Exclude<keyof O & string, keyof LawOptions>[];
/** @throws Error for options that there are not, and for numbers by which laws would hold without a case */
function expectLawOptions(options: LawOptions, own: readonly string[]): void {
  if (typeof options !== 'object' || options === null)
    throw new Error(`laws: expected options such as { runs: 20 }, got ${showValue(options)}`);
  const known = [...COMMON, ...own],
    unknown = Object.keys(options).find((name) => !known.includes(name)),
    { runs, tolerance, signals } = options;
  if (unknown !== undefined) throw new Error(`laws: have no option ${unknown} here: there are ${known.join(', ')}`);
  if (runs !== undefined && !(Number.isInteger(runs) && runs > 0))
    throw new Error(`laws: expected runs as a positive whole number, got ${showValue(runs)}`);
  if (tolerance !== undefined && !(tolerance >= 0 && tolerance < 1))
    throw new Error(`laws: expected tolerance as a number from 0 to below 1, got ${showValue(tolerance)}`);
  if (signals !== undefined && typeof signals !== 'function')
    throw new Error(`laws: expected signals as a function, got ${showValue(signals)}`);
}

/**
 * Returns claims about one subject as laws, except those whose `unless` is true.
 * @param claims properties by name
 * @param subject what they are claimed of
 * @param options options of the laws
 * @param unless claims that do not apply to this subject
 * @param own names of options that this kind has in addition to those of all
 * @throws Error for options that there are not, or that are out of range
 */
export function suite<N extends string, Subject, O extends LawOptions>(
  claims: Readonly<Record<N, Claim<Subject, O>>>,
  subject: Subject,
  options: O,
  unless: Partial<Record<N, boolean>> = {},
  own: OwnOptions<O> = [],
): Suite {
  expectLawOptions(options, own);
  const held = Object.entries<Claim<Subject, O>>(claims).filter(([name]) => !unless[name as N]);
  return Object.fromEntries(held.map(([name, of]) => [name, law(of(subject, options), options)]));
}

/** Returns the laws of a kind whose claims hold for every subject. @param own as of `suite` */
export const lawsOf =
  <Subject, O extends LawOptions>(claims: Claims<Subject, O>, own: OwnOptions<O> = []) =>
  (subject: Subject, options = {} as O): Suite =>
    suite(claims, subject, options, {}, own);

/** Registers every law with a test function: `each(scorerLaws(mine()), test)`. */
export function each(suite: Suite, test: (name: string, law: Law) => unknown): void {
  for (const [name, check] of Object.entries(suite)) test(name, check);
}

/**
 * Fails a law with a sentence unless `holds`.
 * @throws Error with the sentence
 */
export function claim(holds: boolean, sentence: () => string): asserts holds {
  if (!holds) throw new Error(sentence());
}

import { KvError } from './errors.ts';

/** A name and what stands in brackets behind it: a piece with its arguments, or, without brackets, a value. */
export interface Call {
  readonly name: string;
  /** The name stood in double quotes, as a JSON string: a text, whatever it looks like. */
  readonly quoted?: true;
  /** Absent without brackets. */
  readonly args?: readonly Arg[];
}
/** One argument: calls with `∘` between them, behind `key=` or alone. */
export interface Arg {
  readonly key?: string;
  readonly calls: readonly Call[];
}

/** Enough for any policy that runs; what reads the calls may recurse, and compare each with each. */
const LIMITS = { characters: 16_384, names: 512, depth: 32 };

/**
 * A policy's text as calls: `chain = call {∘ call}`, where `|` stands for ∘ too, `call = name [(arg {, arg})]`, `arg = [key=] chain`, where a name
 * is bare or a JSON string.
 *
 * @throws KvError in one sentence for any other text. Takes time linear in its length.
 */
export function policyCalls(text: string): readonly Call[] {
  let at = 0,
    names = 0;
  const refuse = (expected: string): KvError => new KvError('policy', `expected ${expected}, got ${excerpt(text)}`);
  const misshapen = (): KvError => {
    const rest = text.slice(at).trim();
    return refuse(
      rest === '' || rest.startsWith(')')
        ? "as many '(' as ')'"
        : 'a name with options such as snapkv(window=16,kernel=5)',
    );
  };
  const match = (pattern: RegExp): string => {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0] ?? '';
    at += found.length;
    return found;
  };
  const eat = (mark: string): boolean => {
    match(/\s*/y);
    const found = at < text.length && mark.includes(text[at]);
    if (found) at++;
    return found;
  };
  const quoted = (): string => {
    let end = at;
    while (end < text.length && text[end] !== '"') end += text[end] === '\\' ? 2 : 1;
    if (end >= text.length) throw refuse('a closing quote');
    const json = text.slice(at - 1, end + 1);
    at = end + 1;
    try {
      return JSON.parse(json) as string;
    } catch {
      throw refuse(`text in quotes as JSON has it, not ${excerpt(json)}`);
    }
  };
  // Outside all brackets nothing but a bracket, a quote, | or ∘ ends a name: it may be the path of a module.
  const head = (depth: number): Call =>
    eat('"') ? { name: quoted(), quoted: true } : { name: match(depth === 0 ? /[^()"|∘]*/y : /[^()=,"|∘]*/y).trim() };
  const call = (depth: number): Call => {
    const first = head(depth);
    if (first.name === '' && !first.quoted) throw refuse('a name with options such as snapkv(window=16,kernel=5)');
    if (++names > LIMITS.names) throw refuse(`at most ${LIMITS.names} names and values`);
    return eat('(') ? { ...first, args: brackets(depth + 1) } : first;
  };
  const several = <T>(mark: string, read: () => T): readonly T[] => {
    const all = [read()];
    while (eat(mark)) all.push(read());
    return all;
  };
  const chain = (depth: number): readonly Call[] => several('∘|', () => call(depth));
  const arg = (depth: number): Arg => {
    const start = at,
      { name, quoted: text } = head(depth);
    if (!text && name !== '' && eat('=')) return { key: name, calls: chain(depth) };
    at = start;
    return { calls: chain(depth) };
  };
  const brackets = (depth: number): readonly Arg[] => {
    if (depth > LIMITS.depth) throw refuse(`at most ${LIMITS.depth} brackets within one another`);
    if (eat(')')) return [];
    const args = several(',', () => arg(depth));
    if (!eat(')')) throw misshapen();
    return args;
  };
  if (text.length > LIMITS.characters) throw refuse(`at most ${LIMITS.characters} characters`);
  const calls = chain(0);
  if (at < text.length) throw misshapen();
  return calls;
}

/** Writes what `policyCalls` reads back. */
export const printCalls = (calls: readonly Call[]): string =>
  calls
    .map(
      ({ name, quoted, args }) =>
        `${quoted ? JSON.stringify(name) : name}${args ? `(${args.map(printArg).join(',')})` : ''}`,
    )
    .join(' ∘ ');
const printArg = ({ key, calls }: Arg): string => `${key === undefined ? '' : `${key}=`}${printCalls(calls)}`;

/** The start of a text, on one line. */
export const excerpt = (text: string): string =>
  `'${text.slice(0, 120).trim().replace(/\s+/g, ' ')}${text.length > 120 ? '…' : ''}'`;

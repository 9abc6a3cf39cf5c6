import { KvError } from '../tensor/errors.ts';

/** A name, with its arguments if brackets follow it: a piece, or, without brackets, a value. */
export interface PolicyCall {
  readonly name: string;
  /** The name was in double quotes, as a JSON string: a text, whatever it looks like. */
  readonly quoted?: true;
  /** Absent without brackets. */
  readonly args?: readonly Arg[];
}
/** One argument: calls joined by `∘`, after `key=` or alone. */
export interface Arg {
  readonly key?: string;
  readonly calls: readonly PolicyCall[];
}

/** Enough for any policy that runs. Readers of the calls may recurse, and compare each with each. */
const LIMITS = { characters: 16_384, names: 512, depth: 32 };
/** Characters of context that an error shows on either side. */
const AROUND = 24;

/**
 * Parses a policy's text as calls: `chain = call {∘ call}`, where `|` stands for ∘ too, `call = name [(arg {, arg})]`,
 * `arg = [key=] chain`, where a name is bare or a JSON string.
 *
 * @throws KvError in one sentence for any other text. Takes time linear in its length.
 */
export function policyCalls(text: string): readonly PolicyCall[] {
  let at = 0,
    names = 0;
  const refuse = (expected: string): KvError => new KvError('policy', `expected ${expected}, got ${excerpt(text)}`);
  /** Describes where something is missing, with the text around it. */
  const place = (): string => {
    const before = text.slice(0, at).trimEnd(),
      after = text.slice(at).trimStart(),
      [head, tail] = [excerpt(before.slice(-AROUND)), excerpt(after.slice(0, AROUND))];
    if (after === '') return `after ${head}`;
    return before === '' ? `before ${tail}` : `between ${head} and ${tail}`;
  };
  const nothing = (depth: number): KvError => {
    const before = text.slice(0, at).trimEnd().at(-1) ?? '|',
      after = text.slice(at).trimStart()[0] ?? '|';
    if (text.trim() === '') return refuse("a policy such as 'snapkv(window=16,kernel=17,pooling=max) | caote | topK'");
    if (depth > 0 && after === '|' && at >= text.trimEnd().length) return refuse("as many '(' as ')'");
    if (before === '=') return refuse(`a value ${place()}`);
    if (after === '=') return refuse(`the name of an option ${place()}`);
    return refuse(`${'|∘'.includes(before) || '|∘'.includes(after) ? 'a piece' : 'a name or value'} ${place()}`);
  };
  const misshapen = (depth: number): KvError => {
    const rest = text.slice(at).trim();
    return refuse(
      rest === '' || (rest.startsWith(')') && depth === 0)
        ? "as many '(' as ')'"
        : `${depth === 0 ? "'|'" : "',' or ')'"} ${place()}`,
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
  // Outside all brackets only a bracket, a quote, | or ∘ ends a name, since it may be the path of a module.
  const head = (depth: number): PolicyCall =>
    eat('"') ? { name: quoted(), quoted: true } : { name: match(depth === 0 ? /[^()"|∘]*/y : /[^()=,"|∘]*/y).trim() };
  const call = (depth: number): PolicyCall => {
    const first = head(depth);
    if (first.name === '' && !first.quoted) throw nothing(depth);
    if (++names > LIMITS.names) throw refuse(`at most ${LIMITS.names} names and values`);
    return eat('(') ? { ...first, args: brackets(depth + 1) } : first;
  };
  const several = <T>(mark: string, read: () => T): readonly T[] => {
    const all = [read()];
    while (eat(mark)) all.push(read());
    return all;
  };
  const chain = (depth: number): readonly PolicyCall[] => several('∘|', () => call(depth));
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
    if (!eat(')')) throw misshapen(depth);
    return args;
  };
  if (text.length > LIMITS.characters) throw refuse(`at most ${LIMITS.characters} characters`);
  const calls = chain(0);
  if (at < text.length) throw misshapen(0);
  return calls;
}

/** Writes calls as text that `policyCalls` reads back. */
export const printCalls = (calls: readonly PolicyCall[]): string =>
  calls
    .map(
      ({ name, quoted, args }) =>
        `${quoted ? JSON.stringify(name) : name}${args ? `(${args.map(printArg).join(',')})` : ''}`,
    )
    .join(' ∘ ');
const printArg = ({ key, calls }: Arg): string => `${key === undefined ? '' : `${key}=`}${printCalls(calls)}`;

/** Returns the start of a text, on one line. */
export const excerpt = (text: string): string =>
  `'${text.slice(0, 120).trim().replace(/\s+/g, ' ')}${text.length > 120 ? '…' : ''}'`;

import { parse, tokenize } from '@huggingface/jinja';
import { isFilter } from './filters.ts';
import { isTest } from './tests.ts';

/** A node of a parsed template. */
export interface TemplateNode {
  readonly type: string;
  // The library names fields by the type of the node and exports none of these types.
  readonly [field: string]: any;
}

interface Token {
  readonly type: string;
  readonly value: string;
}

/** Marks where parentheses were, for operators that parentheses separate. */
export const GROUP = ' group';
/** Name of the filter whose block is that of `with`. */
export const WITH = ' with';
/** A remark, as no template can write one, that begins the body of a recursive loop. */
export const RECURSIVE = '#} recursive';
/** Prefix of a test that is rewritten as a filter. */
export const TEST = ' is ';
export const NOT = 'not ';

/**
 * Parses a template with the library's parser, in Jinja's grammar: tests with arguments, chained comparisons, the
 * precedence of `~`, raw blocks, `with`, chains of filters of a block, recursive loops, marks that keep white space and other
 * forms of numbers are rewritten into terms that the parser has.
 * @throws Error for an invalid template
 */
export function parseTemplate(source: string): TemplateNode {
  const tokens = tokenize(withoutPlus(withoutRaw(source)), { lstrip_blocks: true, trim_blocks: true }) as Token[];
  const program = regroup(
    parse(asFilters(asLists(asBlocks(asNumbers(tokens)))) as Parameters<typeof parse>[0]),
  ) as TemplateNode;
  checkNames(program, false);
  return program;
}

const RAW = /\{%([-+]?)\s*raw\s*(-?)%\}/g,
  END_RAW = /\{%([-+]?)\s*endraw\s*([-+]?)%\}/g;

/** Rewrites the text between `raw` and `endraw` as a string expression. */
function withoutRaw(source: string): string {
  let [made, done] = ['', 0];
  for (const { 0: open, 1: before, 2: after, index } of source.matchAll(RAW)) {
    if (index < done) continue; // within a raw block
    const from = index + open.length;
    END_RAW.lastIndex = from;
    const close = END_RAW.exec(source);
    if (!close) break; // nor has a later one an end
    const text = source.slice(from, close.index),
      [, end, last] = close;
    let inner = after === '-' ? text.trimStart() : text;
    if (end === '-') inner = inner.trimEnd();
    else if (end === '') inner = inner.replace(/(^|\n)[ \t]*$/, '$1');
    const literal = JSON.stringify(inner).replaceAll('{', '\\u007b').replaceAll('}', '\\u007d');
    made += `${source.slice(done, index)}{%${before} if true %}{{ ${literal} }}{% endif ${last}%}`;
    done = close.index + close[0].length;
  }
  return made + source.slice(done);
}

/** Keeps the white space at `{%+` and `+%}` by an empty text between. */
const withoutPlus = (source: string): string => source.replaceAll('{%+', "{{ '' }}{%").replaceAll('+%}', "%}{{ '' }}");

/** Joins the parts of numbers that the library's grammar lacks: `1_000`, `1e3`, `1.5e-3`, `0x1f`. */
function asNumbers(tokens: readonly Token[]): Token[] {
  const made: Token[] = [];
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i],
      next = tokens[i + 1];
    if (token.type !== 'NumericLiteral' || next?.type !== 'Identifier') {
      made.push(token);
      continue;
    }
    const signed = /e$/i.test(next.value) && tokens[i + 2]?.type === 'AdditiveBinaryOperator',
      more = signed ? next.value + tokens[i + 2].value + (tokens[i + 3]?.value ?? '') : next.value,
      text = (token.value + more).replaceAll(/(?<=[\da-f])_(?=[\da-f])/gi, '');
    if (/^[-+]?0(?:x[\da-f]+|o[0-7]+|b[01]+)$/i.test(text))
      made.push({ ...token, value: `${text.startsWith('-') ? '-' : ''}${Number(text.replace(/^[-+]/, ''))}` });
    else if (/^[-+]?\d+$/.test(text)) made.push({ ...token, value: text });
    else if (/^[-+]?\d+(?:\.\d+)?e[-+]?\d+$/i.test(text))
      // a point makes it a float
      made.push({ ...token, value: text.includes('.') ? text : text.replace(/e/i, '.0e') });
    else {
      made.push(token);
      continue;
    }
    i += signed ? 3 : 1;
  }
  return made;
}

/** Rewrites `with` and chains of filters as blocks of one filter each, and marks the bodies of recursive loops. */
function asBlocks(tokens: readonly Token[]): Token[] {
  const made: Token[] = [],
    open: { name: string; count: number }[] = [];
  const token = (type: string, value: string): Token => ({ type, value }),
    statement = (...inner: readonly Token[]): void => {
      made.push(token('OpenStatement', '{%'), ...inner, token('CloseStatement', '%}'));
    };
  for (let i = 0; i < tokens.length; i++) {
    const name = tokens[i].type === 'OpenStatement' ? (tokens[i + 1]?.value ?? '') : '';
    if (!['with', 'endwith', 'filter', 'endfilter', 'for'].includes(name)) {
      made.push(tokens[i]);
      continue;
    }
    const inner: Token[] = [];
    for (i += 2; i < tokens.length && tokens[i].type !== 'CloseStatement'; i++) inner.push(tokens[i]);
    const [before, last] = inner.slice(-2),
      recursive = last?.type === 'Identifier' && last.value === 'recursive' && before?.value !== 'in';
    if (name === 'for') {
      statement(token('Identifier', name), ...(recursive && before.type !== 'Dot' ? inner.slice(0, -1) : inner));
      if (recursive) made.push(token('Comment', RECURSIVE));
    } else if (name === 'with') {
      open.push({ name, count: 1 });
      statement(
        ...[token('Identifier', 'filter'), token('Identifier', WITH), token('OpenParen', '(')],
        ...[...inner, token('CloseParen', ')')],
      );
    } else if (name === 'filter') {
      const filters = chain(inner);
      open.push({ name, count: filters.length });
      for (const one of filters.toReversed()) statement(token('Identifier', name), ...one);
    } else {
      const block = open.pop();
      if (block === undefined || name !== `end${block.name}`) throw new Error(`unexpected ${name}`);
      for (let n = 0; n < block.count; n++) statement(token('Identifier', 'endfilter'), ...inner);
    }
  }
  return made;
}

/** Returns the filters of a chain. */
function chain(tokens: readonly Token[]): Token[][] {
  const filters: Token[][] = [[]];
  let depth = 0;
  for (const token of tokens) {
    if (token.type in BRACKETS) depth++;
    else if (Object.values(BRACKETS).includes(token.type)) depth--;
    if (token.type === 'Pipe' && depth === 0) filters.push([]);
    else filters.at(-1)?.push(token);
  }
  return filters;
}

const BRACKETS: Readonly<Record<string, string>> = {
  OpenParen: 'CloseParen',
  OpenSquareBracket: 'CloseSquareBracket',
  OpenCurlyBracket: 'CloseCurlyBracket',
};
const LITERALS: readonly string[] = ['Identifier', 'StringLiteral', 'NumericLiteral'];
/** Words that cannot begin the argument of a test. */
const AFTER_TEST: readonly string[] = ['else', 'or', 'and'];

/** Words that may precede an operand, and so a tuple. */
const BEFORE_OPERAND: readonly string[] = ['in', 'not', 'and', 'or', 'if', 'elif', 'else', 'is'];
/** Name of the filter that makes a tuple of a list. */
export const TUPLE = ' tuple';

/** Rewrites tuples of one value or none, and trailing commas, which the library's grammar lacks. */
function asLists(tokens: readonly Token[]): Token[] {
  const made: Token[] = [];
  const open: { at: number; commas: number }[] = [];
  tokens.forEach((token, i) => {
    const top = open.at(-1);
    if (token.type in BRACKETS) open.push({ at: made.length, commas: 0 });
    else if (token.type === 'Comma' && top) top.commas++;
    else if (Object.values(BRACKETS).includes(token.type)) {
      open.pop();
      const before = made[(top?.at ?? 0) - 1];
      const called =
        ['CloseParen', 'CloseSquareBracket', 'StringLiteral'].includes(before?.type ?? '') ||
        (before?.type === 'Identifier' && !BEFORE_OPERAND.includes(before.value));
      const last = tokens[i - 1]?.type;
      if (token.type === 'CloseParen' && top && !called && (last === 'Comma' || last === 'OpenParen')) {
        if (last === 'Comma') made.pop();
        if (top.commas < 2) {
          made[top.at] = { type: 'OpenSquareBracket', value: '[' };
          made.push({ type: 'CloseSquareBracket', value: ']' }, { type: 'Pipe', value: '|' });
          made.push({ type: 'Identifier', value: TUPLE });
          return;
        }
      }
    }
    made.push(token);
  });
  return made;
}

/** Returns where each bracket that is closed ends, by its index. */
function closings(tokens: readonly Token[]): ReadonlyMap<number, number> {
  const ends = new Map<number, number>(),
    open: number[] = [];
  tokens.forEach(({ type }, i) => {
    if (type in BRACKETS) open.push(i);
    else if (Object.values(BRACKETS).includes(type)) {
      const at = open.pop();
      if (at !== undefined) ends.set(at, i + 1);
    }
  });
  return ends;
}

/** Rewrites tests as filters, which may have arguments in the library's grammar, and marks where parentheses end. */
function asFilters(tokens: readonly Token[]): Token[] {
  const made: Token[] = [];
  const word = (i: number, ...words: readonly string[]): boolean =>
    tokens[i]?.type === 'Identifier' && words.includes((tokens[i] as Token).value);
  const closes = closings(tokens),
    closing = (i: number): number => closes.get(i) ?? tokens.length;
  /** Returns the index of the end of an operand that begins at `i`. */
  const operand = (i: number): number => {
    let at = (tokens[i] as Token).type in BRACKETS ? closing(i) : i + 1;
    for (;;) {
      const type = tokens[at]?.type ?? '';
      if (type === 'Dot') at += 2;
      else if (type === 'OpenParen' || type === 'OpenSquareBracket') at = closing(at);
      else return at;
    }
  };
  /** Whether the next `in` belongs to a `for` and is not an operator. */
  let loops = false;
  const ends: number[] = [];
  for (let i = 0; i < tokens.length; i++) {
    while (ends.at(-1) === i) {
      made.push({ type: 'CloseParen', value: ')' });
      ends.pop();
    }
    const token = tokens[i] as Token;
    if (token.type === 'OpenStatement') loops = word(i + 1, 'for');
    const compares =
      token.type === 'ComparisonBinaryOperator' || word(i, 'in') || (word(i, 'not') && word(i + 1, 'in'));
    const own = loops && word(i, 'in');
    if (own) loops = false;
    if (
      !own &&
      (compares || token.value === '~') &&
      tokens[i - 1]?.type === 'CloseParen' &&
      token.type !== 'Text' &&
      token.type !== 'StringLiteral'
    )
      made.push({ type: 'Pipe', value: '|' }, { type: 'Identifier', value: GROUP });
    if (!word(i, 'is') || tokens[i - 1]?.type === 'Dot') {
      made.push(token);
      continue;
    }
    const not = word(i + 1, 'not') ? NOT : '';
    i += not === '' ? 1 : 2;
    const name = tokens[i];
    if (name?.type !== 'Identifier' && name?.type !== 'ComparisonBinaryOperator')
      throw new Error("expected the name of a test after 'is'");
    made.push({ type: 'Pipe', value: '|' }, { type: 'Identifier', value: `${TEST}${not}${name.value}` });
    if (word(i + 1, 'if', 'is')) throw new Error(`'${tokens[i + 1]?.value}' after a test without parentheses`);
    // Jinja reads these as the test's argument, which fails at run time.
    if (word(i + 1, 'in', 'not')) {
      made.push(
        { type: 'OpenParen', value: '(' },
        { type: 'Identifier', value: 'none' },
        { type: 'CloseParen', value: ')' },
      );
      continue;
    }
    const next = tokens[i + 1];
    if (
      next === undefined ||
      next.type === 'OpenParen' ||
      !(next.type in BRACKETS || LITERALS.includes(next.type)) ||
      word(i + 1, ...AFTER_TEST)
    )
      continue;
    made.push({ type: 'OpenParen', value: '(' });
    ends.push(operand(i + 1));
  }
  for (const _ of ends) made.push({ type: 'CloseParen', value: ')' });
  return made;
}

const parts = (node: unknown): readonly unknown[] =>
  typeof node !== 'object' || node === null ? [] : node instanceof Map ? [...node].flat() : Object.values(node);

/** Regroups `a + b ~ c` as `a + (b ~ c)`. */
function regroup(node: unknown): unknown {
  if (typeof node !== 'object' || node === null) return node;
  if (Array.isArray(node)) return node.map(regroup);
  if (node instanceof Map) return new Map([...node].map(([key, value]) => [regroup(key), regroup(value)]));
  const own = Object.fromEntries(
    Object.entries(node).map(([name, part]) => [name, regroup(part)]),
  ) as unknown as TemplateNode;
  if (own.type !== 'BinaryExpression' || own.operator.value !== '~') return own;
  const left = own.left as TemplateNode;
  if (left.type !== 'BinaryExpression' || !['+', '-'].includes(left.operator.value)) return own;
  return { ...left, right: { ...own, left: left.right } };
}

/** Nodes whose parts Jinja checks only when they run, and nodes whose bodies it always checks. */
const SOFT: readonly string[] = ['If', 'Ternary', 'SelectExpression'];
const HARD: readonly string[] = ['For', 'Macro', 'CallStatement', 'FilterStatement'];

/** Checks names of filters and tests. @throws Error for one that Jinja does not know, unless it may never run */
function checkNames(node: unknown, soft: boolean): void {
  const { type, filter } = (node ?? {}) as Partial<TemplateNode>;
  if (type === 'FilterExpression' || type === 'FilterStatement') {
    const name = String((filter.type === 'CallExpression' ? filter.callee : filter).value);
    if (!soft && !known(name))
      throw new Error(
        `No ${name.startsWith(TEST) ? 'test' : 'filter'} named '${name.replace(TEST, '').replace(NOT, '')}'.`,
      );
  }
  const inner =
    type !== undefined && SOFT.includes(type) ? true : type !== undefined && HARD.includes(type) ? false : soft;
  for (const part of parts(node)) checkNames(part, inner);
}

function known(name: string): boolean {
  if (!name.startsWith(TEST)) return [GROUP, TUPLE, WITH].includes(name) || isFilter(name);
  return isTest(name.slice(TEST.length).replace(NOT, ''));
}

/** Returns every name in a parsed template. */
export function namesIn(program: TemplateNode): ReadonlySet<string> {
  const names = new Set<string>(),
    walk = (node: unknown): void => {
      if (typeof node !== 'object' || node === null) return;
      const { type, value } = node as { readonly type?: unknown; readonly value?: unknown };
      if (type === 'Identifier' && typeof value === 'string') names.add(value);
      for (const inside of node instanceof Map ? node : Object.values(node)) walk(inside);
    };
  walk(program);
  return names;
}

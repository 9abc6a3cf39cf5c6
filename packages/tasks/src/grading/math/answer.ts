import type { Expression } from './expression.ts';
import { NoFormula, parseFormula } from './parse.ts';

/** The meaning of an answer. */
export type MathAnswer =
  | { readonly kind: 'value'; readonly value: Expression }
  /** Unordered, without duplicates: {1, 2}, "1, 2", 1 ± 2. */
  | { readonly kind: 'set'; readonly items: readonly MathAnswer[] }
  /** Ordered: points, vectors, and intervals by their brackets. */
  | { readonly kind: 'tuple'; readonly brackets: string; readonly items: readonly MathAnswer[] }
  | { readonly kind: 'union'; readonly items: readonly MathAnswer[] }
  /** Rows of entries; `lines` tells a determinant from a matrix. */
  | { readonly kind: 'matrix'; readonly lines: boolean; readonly rows: readonly (readonly MathAnswer[])[] }
  /** `less` is below `more`, or they are equal or not. `name`: what stands alone on the left. */
  | {
      readonly kind: 'relation';
      readonly sign: '=' | '<' | '\\le' | '\\ne';
      readonly less: Expression;
      readonly more: Expression;
      readonly name?: string;
    }
  | { readonly kind: 'text'; readonly text: string };

/** Maximum length and number of parts; longer answers are compared as text. */
const LONGEST = 2000;
const MOST = 60;

/** Returns the meaning of a plain answer, or undefined if none is recognised. */
export function answerOf(text: string): MathAnswer | undefined {
  if (text.length > LONGEST) return undefined;
  try {
    return read(text, 0);
  } catch (error) {
    if (error instanceof NoFormula) return undefined;
    throw error;
  }
}

function read(given: string, depth: number): MathAnswer {
  if (depth > 8) throw new NoFormula();
  const text = given.trim().replace(/^[a-zA-Z] ?\\in(?![a-zA-Z]) ?/, ''),
    inner = (one: string): MathAnswer => read(one, depth + 1),
    words = /^[a-zA-Z][a-zA-Z' -]{3,}$|^(?:[Yy]es|[Nn]o|[Oo]dd|[Aa]ll)$|^\(?[A-Z]\)?$/.test(text);
  if (words) return { kind: 'text', text: text.replace(/^\(([A-Z])\)$/, '$1') };
  const based = /^([0-9A-Z]+) ?_ ?(?:\{ ?(\d+) ?\}|(\d))$/.exec(text);
  if (based) return { kind: 'text', text: `${based[1]}_${based[2] ?? based[3]}` };
  const unions = parts(text, '\\cup');
  if (unions.length > 1) return { kind: 'union', items: unions.map(inner) };
  if (/^\d{1,3}(?:,\d{3})+(?:\.\d*)?$/.test(text)) return value(text.replaceAll(',', ''));
  const list = parts(text, ',', ';');
  if (list.length > 1) return set(list.filter((part) => part.trim() !== '').map(inner));
  if (/^\\(?:emptyset|varnothing)$|^\\\{ ?\\\}$/.test(text)) return set([]);
  const matrix = /^\\begin ?\{([pbvV]?)matrix\}(.*)\\end ?\{\1matrix\}$/s.exec(text);
  if (matrix && !matrix[2].includes('\\begin')) return matrixOf(matrix[1], matrix[2], inner);
  const wrap = wrapped(text);
  if (wrap) {
    const items = parts(wrap.inside, ',');
    if (wrap.brackets === '\\{\\}') return set(items.map(inner));
    if (items.length > 1) return { kind: 'tuple', brackets: wrap.brackets, items: items.map(inner) };
  }
  return relation(text) ?? value(text);
}

/** Reads a value; with ±, two of them. */
function value(text: string): MathAnswer {
  if (!/\\[pm]{2}(?![a-zA-Z])/.test(text)) return { kind: 'value', value: parseFormula(text) };
  return set([1, -1].map((sign): MathAnswer => ({ kind: 'value', value: parseFormula(text, sign as 1 | -1) })));
}

/** Makes a set; for "x = 1, x = 2", or a single relation, the set of values of x. */
function set(items: readonly MathAnswer[]): MathAnswer {
  const names = new Set(items.map((item) => (item.kind === 'relation' && item.sign === '=' ? item.name : undefined)));
  if (names.size === 1 && !names.has(undefined))
    return {
      kind: 'set',
      items: items.map((item) => (item.kind === 'relation' ? { kind: 'value', value: item.more } : item)),
    };
  return { kind: 'set', items };
}

function matrixOf(kind: string, text: string, inner: (one: string) => MathAnswer): MathAnswer {
  const rows = parts(text, '\\\\').map((row) => parts(row, '&'));
  if (rows.at(-1)?.join('').trim() === '') rows.pop();
  if (rows.flat().length > MOST) throw new NoFormula();
  return { kind: 'matrix', lines: kind === 'v' || kind === 'V', rows: rows.map((row) => row.map(inner)) };
}

const SIGNS = {
  '\\leq': '\\le',
  '\\le': '\\le',
  '\\geq': '\\ge',
  '\\ge': '\\ge',
  '\\neq': '\\ne',
  '\\ne': '\\ne',
  '<': '<',
  '>': '>',
  '=': '=',
} as const;
const MORE = { '>': '<', '\\ge': '\\le' } as const;

/** Reads an equation or inequality; 1 < x < 2 is two of them. */
function relation(text: string): MathAnswer | undefined {
  const found = signsOf(text);
  if (found.length === 0) return undefined;
  const sides = parts(text, ...Object.keys(SIGNS)).map((side) => side.trim()),
    all = found.map((sign, i): MathAnswer => {
      const [left, right] = [sides[i], sides[i + 1]],
        turned = sign === '>' || sign === '\\ge',
        name = /^(?:[a-zA-Z]|\\[a-zA-Z]+)(?:_(?:\w|\{\w+\}))?(?:\([a-z]\))?$/.test(left) ? left : undefined;
      const [less, more] = (turned ? [right, left] : [left, right]).map((side) =>
        sign === '=' && side === name ? symbolOf(name) : parseFormula(side),
      );
      return {
        kind: 'relation',
        sign: turned ? MORE[sign] : sign,
        less,
        more,
        ...(name !== undefined && sign === '=' && { name }),
      };
    });
  return all.length === 1 ? all[0] : { kind: 'set', items: all };
}

/** Reads what is alone on the left of an equation, which need be no formula. */
function symbolOf(name: string): Expression {
  try {
    return parseFormula(name);
  } catch (error) {
    if (error instanceof NoFormula) return { kind: 'symbol', name };
    throw error;
  }
}

/** Returns the relation signs outside of brackets, in order. */
const signsOf = (text: string): readonly (typeof SIGNS)[keyof typeof SIGNS][] =>
  places(text, Object.keys(SIGNS)).map(({ found }) => SIGNS[found as keyof typeof SIGNS]);

/** Returns where one of these signs occurs outside of all brackets. */
function places(text: string, any: readonly string[]): readonly { readonly at: number; readonly found: string }[] {
  const out: { at: number; found: string }[] = [];
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const [command] = /^\\(?:[a-zA-Z]+|.)/.exec(text.slice(at, at + 24)) ?? [],
      token = command ?? text[at];
    if (depth === 0 && any.includes(token)) {
      out.push({ at, found: token });
      if (out.length > MOST) throw new NoFormula();
    } else if (/^(?:[([{]|\\\{|\\begin|\\lfloor|\\lceil|\\langle)$/.test(token)) depth++;
    else if (/^(?:[)\]}]|\\\}|\\end|\\rfloor|\\rceil|\\rangle)$/.test(token)) depth--;
    at += token.length - 1;
  }
  return out;
}

function parts(text: string, ...any: readonly string[]): readonly string[] {
  let from = 0;
  const out = places(text, any).map(({ at, found }) => {
    const part = text.slice(from, at);
    from = at + found.length;
    return part;
  });
  return [...out, text.slice(from)];
}

/** Returns the contents of a pair of brackets that encloses a whole text. */
function wrapped(text: string): { readonly brackets: string; readonly inside: string } | undefined {
  const [open] = /^(?:[([]|\\\{|\\langle)/.exec(text) ?? [],
    [close] = /(?:[)\]]|\\\}|\\rangle)$/.exec(text) ?? [];
  if (open === undefined || close === undefined) return undefined;
  const inside = text.slice(open.length, text.length - close.length);
  let depth = 0;
  for (const [token] of inside.matchAll(/\\(?:[a-zA-Z]+|.)|[()[\]{}]/g)) {
    if (/^(?:[([{]|\\\{|\\langle)$/.test(token)) depth++;
    if (/^(?:[)\]}]|\\\}|\\rangle)$/.test(token) && --depth < 0) return undefined;
  }
  // vectors may be written in angle brackets
  return { brackets: open === '\\langle' ? '()' : `${open}${close}`, inside };
}

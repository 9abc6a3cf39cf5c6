import { choice, repeat, rule, sequence, text, type Node, type Rules } from './node.ts';

const TOKEN = /"(?:[^"\\\n]|\\.)*"|\[(?:[^\]\\\n]|\\.)*\]|\{\d+(?:, ?\d*)?\}|::=|[A-Za-z_][\w.-]*|#.*|\S/g;
const ESCAPE = /\\(?:u.{4}|U.{8}|x..|.)/g;
/** Most parentheses within each other. */
const DEEPEST = 128;

/**
 * Reads a grammar in xgrammar's EBNF, for the work that it is: of characters it says whether they are nearly all.
 * @returns undefined for one that is not read so, whatever xgrammar makes of it
 */
export function readEbnf(source: string): Rules | undefined {
  const tokens = (source.match(TOKEN) ?? []).filter((token) => !token.startsWith('#')),
    rules: Rules = new Map();
  let at = 0,
    read = true;
  const options = (depth: number): Node => {
    const all = [parts(depth)];
    while (tokens[at] === '|') {
      at++;
      all.push(parts(depth));
    }
    return choice(...all);
  };
  const parts = (depth: number): Node => {
    const all: Node[] = [];
    while (at < tokens.length && tokens[at] !== '|' && tokens[at] !== ')' && tokens[at + 1] !== '::=')
      all.push(part(depth));
    return all.length === 1 ? (all[0] as Node) : sequence(...all);
  };
  const part = (depth: number): Node => {
    let node = one(tokens[at++] as string, depth);
    for (; at < tokens.length; at++) {
      const token = tokens[at] as string,
        counts = /^\{(\d+)(, ?(\d*))?\}$/.exec(token);
      if (counts) {
        const [, least, more, most] = counts;
        node = repeat(node, Number(least), more === undefined ? Number(least) : most === '' ? Infinity : Number(most));
      } else if (/^[*+?]$/.test(token)) node = repeat(node, token === '+' ? 1 : 0, token === '?' ? 1 : Infinity);
      else break;
    }
    return node;
  };
  const one = (token: string, depth: number): Node => {
    if (token === '(' && depth < DEEPEST) {
      const inner = options(depth + 1);
      read &&= tokens[at++] === ')';
      return inner;
    }
    if (token.length > 1 && token.startsWith('"')) return text(token.slice(1, -1).replace(ESCAPE, ' '));
    if (token.length > 1 && token.startsWith('[')) return { is: 'chars', ranges: [], beyond: token.startsWith('[^') };
    read &&= /^[A-Za-z_]/.test(token);
    return rule(token);
  };
  while (read && at < tokens.length) {
    const [name = '', is] = tokens.slice(at, at + 2);
    read &&= is === '::=';
    at += 2;
    if (read) rules.set(name, options(0));
  }
  const known = (node: Node): boolean =>
    node.is === 'rule'
      ? rules.has(node.name)
      : node.is === 'sequence'
        ? node.parts.every(known)
        : node.is === 'choice'
          ? node.options.every(known)
          : node.is !== 'repeat' || known(node.part);
  return read && rules.has('root') && [...rules.values()].every(known) ? rules : undefined;
}

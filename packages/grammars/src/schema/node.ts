/** A part of a grammar over characters. */
export type Node =
  | { readonly is: 'text'; readonly text: string }
  /** One character: an ASCII one of the ranges, or any other if `beyond`. xgrammar 0.1.27 reads no ranges beyond ASCII. */
  | { readonly is: 'chars'; readonly ranges: readonly Range[]; readonly beyond: boolean }
  | { readonly is: 'sequence'; readonly parts: readonly Node[] }
  /** One of the options; none of them, where there are none. */
  | { readonly is: 'choice'; readonly options: readonly Node[] }
  | { readonly is: 'repeat'; readonly part: Node; readonly least: number; readonly most: number }
  | { readonly is: 'rule'; readonly name: string };

/** Code points from one to another, both included. */
export type Range = readonly [from: number, to: number];

/** Rules by name; `root` is where a text begins. */
export type Rules = Map<string, Node>;

export const text = (text: string): Node => ({ is: 'text', text });
export const chars = (...ranges: readonly Range[]): Node => ({ is: 'chars', ranges, beyond: false });
export const sequence = (...parts: readonly Node[]): Node => ({ is: 'sequence', parts });
export const choice = (...options: readonly Node[]): Node =>
  options.length === 1 ? (options[0] as Node) : { is: 'choice', options };
export const repeat = (part: Node, least: number, most: number = Infinity): Node => ({
  is: 'repeat',
  part,
  least,
  most,
});
export const optional = (part: Node): Node => repeat(part, 0, 1);
export const rule = (name: string): Node => ({ is: 'rule', name });
export const empty: Node = text('');
/** What nothing fits. */
export const never: Node = choice();

/** Returns the characters with which all texts begin. */
function beginning([first = '', ...others]: readonly string[]): string {
  const points = Array.from(first);
  let [at, length] = [0, 0];
  while (at < points.length) {
    const next = points[at] as string;
    if (!others.every((other) => other.startsWith(next, length))) break;
    length += next.length;
    at++;
  }
  return first.slice(0, length);
}

/** Returns one of many texts, those that begin alike as one beginning: so masks are fast. */
export function oneOf(texts: readonly string[], depth = 0): Node {
  const groups = new Map<string, string[]>();
  for (const one of new Set(texts)) {
    const [first = ''] = one;
    const group = groups.get(first);
    if (group) group.push(one);
    else groups.set(first, [one]);
  }
  if (depth > 64) return choice(...texts.map(text)); // brackets within brackets have an end
  return choice(
    ...[...groups.values()].map((group) => {
      if (group.length === 1) return text(group[0] as string);
      const start = beginning(group);
      return sequence(
        text(start),
        oneOf(
          group.map((one) => one.slice(start.length)),
          depth + 1,
        ),
      );
    }),
  );
}

/** Returns the rules without what no text can end: options and repetitions that reach no end are left out. */
export function finite(rules: Rules): Rules {
  const ends = new Set<string>();
  const reaches = (node: Node): boolean => {
    switch (node.is) {
      case 'sequence':
        return node.parts.every(reaches);
      case 'choice':
        return node.options.some(reaches);
      case 'repeat':
        return node.least === 0 || reaches(node.part);
      case 'rule':
        return ends.has(node.name);
      default:
        return true;
    }
  };
  for (let before = -1; before < ends.size; ) {
    before = ends.size;
    for (const [name, node] of rules) if (!ends.has(name) && reaches(node)) ends.add(name);
  }
  const pruned = (node: Node): Node => {
    switch (node.is) {
      case 'sequence':
        return sequence(...node.parts.map(pruned));
      case 'choice':
        return choice(...node.options.filter(reaches).map(pruned));
      case 'repeat':
        return reaches(node.part) ? { ...node, part: pruned(node.part) } : empty;
      default:
        return node;
    }
  };
  return new Map([...rules].filter(([name]) => ends.has(name)).map(([name, node]) => [name, pruned(node)]));
}

/** Writes rules as xgrammar's EBNF. */
export function ebnf(rules: Rules): string {
  return [...rules].map(([name, node]) => `${name} ::= ${written(node)}\n`).join('');
}

function written(node: Node): string {
  switch (node.is) {
    case 'text':
      return `"${Array.from(node.text, (char) => unit(char.codePointAt(0) as number)).join('')}"`;
    case 'chars':
      return node.beyond ? `[^${spans(others(node.ranges, 127))}]` : `[${spans(node.ranges)}]`;
    case 'sequence':
      return node.parts.length === 0 ? '""' : node.parts.map(written).join(' ');
    case 'choice':
      return `(${node.options.map(written).join(' | ')})`;
    case 'repeat': {
      const { part, least, most } = node,
        one = `(${written(part)})`;
      if (most === 0) return '""';
      if (most === Infinity) return least === 0 ? `${one}*` : least === 1 ? `${one}+` : `${one}{${least},}`;
      return least === 0 && most === 1 ? `${one}?` : `${one}{${least},${most}}`;
    }
    case 'rule':
      return node.name;
  }
}

const spans = (ranges: readonly Range[]): string =>
  ranges.map(([from, to]) => (from === to ? unit(from) : `${unit(from)}-${unit(to)}`)).join('');

/** Returns ranges in order, those that meet as one. */
export function joinRanges(ranges: readonly Range[]): Range[] {
  const all: [number, number][] = [];
  for (const [from, to] of [...ranges].sort(([a], [b]) => a - b)) {
    const end = all.at(-1);
    if (end && from <= end[1] + 1) end[1] = Math.max(end[1], to);
    else all.push([from, to]);
  }
  return all;
}
/** Returns the code points up to `last` that lie outside. */
export function others(ranges: readonly Range[], last: number): Range[] {
  const out: Range[] = [];
  let at = 0;
  for (const [from, to] of joinRanges(ranges)) {
    if (from > at && at <= last) out.push([at, Math.min(from - 1, last)]);
    at = to + 1;
  }
  if (at <= last) out.push([at, last]);
  return out;
}
export const within = (ranges: readonly Range[], least: number, most: number): Range[] =>
  ranges.flatMap(([from, to]): Range[] =>
    from <= most && to >= least ? [[Math.max(from, least), Math.min(to, most)]] : [],
  );
export const sizeOf = (ranges: readonly Range[]): number => ranges.reduce((sum, [from, to]) => sum + to - from + 1, 0);

/** Writes a code point: as it is where that is a letter or a digit, else by its number. */
const unit = (point: number): string =>
  /^[A-Za-z0-9]$/.test(String.fromCodePoint(point))
    ? String.fromCodePoint(point)
    : point > 0xffff
      ? `\\U${point.toString(16).padStart(8, '0')}`
      : `\\u${point.toString(16).padStart(4, '0')}`;

import { RegExpParser, type AST } from '@eslint-community/regexpp';
import { characterOf, type JsonText } from './json-text.ts';
import { choice, empty, joinRanges, others, repeat, rule, sequence, text } from './node.ts';
import type { Node, Range } from './node.ts';

const last = 0x10ffff;
/** Most rules of one pattern: nested counted repetitions multiply. */
const mostRules = 4096;

/**
 * Returns a string, from its opening to its closing quotation mark, in which a `pattern` finds something. Each state of the
 * pattern is a rule that ends the string, which xgrammar masks faster than repetitions.
 *
 * @param refuse throws an error that ends in these words
 */
export function patternNode(json: JsonText, name: string, pattern: string, refuse: (why: string) => never): Node {
  let alternatives: readonly AST.Alternative[],
    rules = 0;
  try {
    ({ alternatives } = new RegExpParser({ ecmaVersion: 2025 }).parsePattern(pattern, 0, pattern.length, true));
  } catch (error) {
    return refuse(`is no regular expression: ${error instanceof Error ? error.message : error}`);
  }
  /** Defines a rule; `define` may refer to it. */
  const state = (define: (self: Node) => Node): Node => {
    if (++rules > mostRules) refuse(`has more than ${mostRules} states`);
    const own = `${name}-${rules}`;
    return json.named(own, () => define(rule(own)));
  };
  const all = (elements: readonly AST.Element[], then: Node): Node =>
    elements.reduceRight((then, element) => one(element, then), then);
  /** Returns a text of `node`, followed by `then`, which is short: a rule, or a text. */
  const one = (node: AST.Element, then: Node): Node => {
    switch (node.type) {
      case 'Character':
      case 'CharacterSet':
      case 'CharacterClass':
        return state(() =>
          sequence(
            characterOf(rangesOf(node, refuse)) ??
              refuse(
                `has '${node.raw}', a class of many characters beyond ASCII but not of all, which cannot be followed`,
              ),
            then,
          ),
        );
      case 'Group':
      case 'CapturingGroup':
        if (node.type === 'Group' && node.modifiers) refuse('has flags within a group, which cannot be followed');
        return state(() => choice(...node.alternatives.map(({ elements }) => all(elements, then))));
      case 'Quantifier': {
        const { element, min, max } = node;
        if (max === Infinity && mayBeEmpty(element)) refuse(`repeats without an end what may be empty: '${node.raw}'`);
        let rest = max === Infinity ? state((self) => choice(then, one(element, self))) : then;
        for (let more = max === Infinity ? min : max; more > 0; more--) {
          const after = rest;
          rest = state(() => choice(...(more > min ? [then] : []), one(element, after)));
        }
        return rest;
      }
      case 'Assertion':
        return refuse(
          node.kind === 'start' || node.kind === 'end'
            ? `has '${node.raw}' within it, which may only be where a pattern or one of its alternatives begins or ends`
            : `has '${node.raw}', an assertion, which cannot be followed`,
        );
      default:
        return refuse(`has '${node.raw}', which cannot be followed`);
    }
  };
  const end = json.rest;
  return sequence(
    json.quote,
    choice(
      ...alternatives.map(({ elements }) => {
        const is = (node: AST.Element | undefined, kind: string): boolean =>
            node?.type === 'Assertion' && node.kind === kind,
          starts = is(elements[0], 'start'),
          inner = elements.slice(starts ? 1 : 0),
          ends = is(inner.at(-1), 'end'),
          body = all(ends ? inner.slice(0, -1) : inner, ends ? json.quote : end);
        return starts ? body : state((self) => choice(body, json.character(self)));
      }),
    ),
  );
}

/** Returns an expression as a part of a grammar, for the work that it is; undefined for one that cannot be read. */
export function expressionNode(pattern: string): Node | undefined {
  const options = (alternatives: readonly AST.Alternative[]): Node =>
    choice(...alternatives.map(({ elements }) => sequence(...elements.map(one))));
  const one = (node: AST.Element): Node => {
    switch (node.type) {
      case 'Character':
        return text(node.raw);
      case 'CharacterSet':
        return { is: 'chars', ranges: [], beyond: node.kind === 'any' || node.kind === 'property' || node.negate };
      case 'CharacterClass':
        return { is: 'chars', ranges: [], beyond: node.negate };
      case 'Group':
      case 'CapturingGroup':
        return options(node.alternatives);
      case 'Quantifier':
        return repeat(one(node.element), node.min, node.max);
      default:
        return empty;
    }
  };
  try {
    return options(new RegExpParser({ ecmaVersion: 2025 }).parsePattern(pattern, 0, pattern.length, true).alternatives);
  } catch {
    return undefined;
  }
}

function mayBeEmpty(node: AST.Element): boolean {
  if (node.type === 'Quantifier') return node.min === 0 || mayBeEmpty(node.element);
  if (node.type === 'Group' || node.type === 'CapturingGroup')
    return node.alternatives.some(({ elements }) => elements.every(mayBeEmpty));
  return node.type === 'Assertion' || node.type === 'Backreference';
}

/** Returns the code points of a single character of an expression. */
function rangesOf(
  node: AST.Character | AST.CharacterSet | AST.CharacterClass,
  refuse: (why: string) => never,
): Range[] {
  if (node.type === 'Character') return [[node.value, node.value]];
  if (node.type === 'CharacterClass') {
    const all = node.elements.flatMap((one): Range[] => {
      if (one.type === 'CharacterClassRange') return [[one.min.value, one.max.value]];
      if (one.type === 'Character' || one.type === 'CharacterSet') return rangesOf(one, refuse);
      return refuse(`has '${one.raw}', which grammars do not have`);
    });
    return node.negate ? others(all, last) : joinRanges(all);
  }
  switch (node.kind) {
    case 'any':
      return others(
        [
          [0x0a, 0x0a],
          [0x0d, 0x0d],
          [0x2028, 0x2029],
        ],
        last,
      );
    case 'digit':
      return signed([[48, 57]], node.negate);
    case 'word':
      return signed(
        [
          [48, 57],
          [65, 90],
          [95, 95],
          [97, 122],
        ],
        node.negate,
      );
    case 'space':
      return signed(spaces, node.negate);
    case 'property':
      return scanned(node.raw);
  }
}
const spaces: readonly Range[] = [
  ...([
    [9, 13],
    [32, 32],
    [0xa0, 0xa0],
    [0x1680, 0x1680],
    [0x2000, 0x200a],
    [0x2028, 0x2029],
  ] as const),
  ...([
    [0x202f, 0x202f],
    [0x205f, 0x205f],
    [0x3000, 0x3000],
    [0xfeff, 0xfeff],
  ] as const),
];
const signed = (ranges: readonly Range[], negate: boolean): Range[] => (negate ? others(ranges, last) : [...ranges]);

const properties = new Map<string, Range[]>();
/** Returns the code points of a Unicode property, by asking for each; kept, since that takes a while. */
function scanned(raw: string): Range[] {
  const known = properties.get(raw);
  if (known) return known;
  const test = new RegExp(raw, 'u'),
    ranges: Range[] = [];
  for (let from = -1, point = 0; point <= last + 1; point++) {
    const inside = point <= last && (point & 0xf800) !== 0xd800 && test.test(String.fromCodePoint(point));
    if (inside && from < 0) from = point;
    if (!inside && from >= 0) {
      ranges.push([from, point - 1]);
      from = -1;
    }
  }
  if (properties.size >= 32) properties.clear();
  properties.set(raw, ranges);
  return ranges;
}

import { RegExpParser, type AST } from '@eslint-community/regexpp';
import { isAtomic } from './atomic-groups.ts';
import { charSet, union, type CharSet } from './char-set.ts';

/** Opcodes. Each instruction in `Program.code` is its opcode and four operands. */
export const OP = {
  /** The expression has matched. */
  match: 0,
  /** Matches `a` to `b` characters (-1: any number) of set `c`, greedily; runs are indexed by `d`. */
  run: 1,
  /** Continues at `a`, and at `b` if that fails; at `b` at once unless the next character is in set `c` (-1: any). */
  split: 2,
  /** A `split` that a loop returns to; positions at which it was tried are recorded under `d`. */
  loop: 3,
  /** Continues at `a`. */
  jump: 4,
  /**
   * Checks that the character before (`b` = 1) or after is in set `a` (`c` = 0), or is absent or outside it (`c` = 1).
   */
  peek: 5,
  /**
   * Lookahead: the instructions up to `a` match here (`b` = 0), or do not (`b` = 1). Atomic group: it continues where
   * they match (`b` = 2).
   */
  ahead: 6,
  /** A `run` that gives nothing back. */
  hold: 7,
} as const;
export const WIDTH = 5;

/** A compiled expression. */
export interface RegexProgram {
  readonly code: Int32Array;
  readonly sets: readonly CharSet[];
  /** Number of `run` and `loop` instructions. */
  readonly runs: number;
  readonly loops: number;
  /** Set of characters that a match can begin with, if known. */
  readonly first: CharSet | undefined;
}

/** Maximum number of instructions; longer programs come from nested counted repetitions. */
const LONGEST = 2 ** 14;

/**
 * Compiles an expression with the flags `gu`.
 * @throws Error for features whose state is more than a position (back references, lookbehind of more than a
 * character), and for a program of more than `LONGEST` instructions
 */
export function compile({ source }: RegExp): RegexProgram {
  const { alternatives } = new RegExpParser({ ecmaVersion: 2025 }).parsePattern(source, 0, source.length, true);
  const code: number[] = [];
  const sets: CharSet[] = [];
  const known = new Map<string, number>();
  let [runs, loops] = [0, 0];
  const at = (): number => code.length / WIDTH;
  const put = (op: number, a = 0, b = 0, c = 0, d = 0): number => {
    if (at() >= LONGEST) throw new Error(`more than ${LONGEST} instructions`);
    return code.push(op, a, b, c, d) / WIDTH - 1;
  };
  const set = (key: string, make: () => CharSet): number => {
    const index = known.get(key) ?? sets.push(make()) - 1;
    known.set(key, index);
    return index;
  };
  const setOf = ({ raw }: AST.Node): number => set(raw, () => charSet(raw));

  const run = (node: AST.Node, min: number, max: number, op: number = OP.run): void => {
    put(op, min, max === Infinity ? -1 : max, setOf(node), runs++);
  };
  const branch = (op: number, firsts: readonly AST.Node[] | undefined, d = 0): number =>
    put(op, 0, 0, firsts === undefined ? -1 : set(keyOf(firsts), () => unionOf(firsts)), d);
  const unionOf = (nodes: readonly AST.Node[]): CharSet => union(nodes.map((node) => sets[setOf(node)] as CharSet));
  const target = (instruction: number, operand: 1 | 2): void => {
    code[instruction * WIDTH + operand] = at();
  };

  const choice = (list: readonly AST.Alternative[]): void => {
    const ends: number[] = [];
    for (const [i, { elements }] of list.entries()) {
      const last = i === list.length - 1;
      const split = last ? -1 : branch(OP.split, firstOf(elements));
      if (!last) target(split, 1);
      for (const element of elements) emit(element);
      if (last) continue;
      ends.push(put(OP.jump));
      target(split, 2);
    }
    for (const end of ends) target(end, 1);
  };

  const quantified = ({ element, min, max, greedy }: AST.Quantifier): void => {
    if (isCharacter(element)) {
      if (greedy) {
        run(element, min, max);
        return;
      }
      if (min > 0) run(element, min, min);
    } else for (let i = 0; i < min; i++) emit(element);
    const [go, leave] = greedy ? ([1, 2] as const) : ([2, 1] as const);
    const firsts = greedy ? firstOf([element]) : undefined;
    if (max === Infinity) {
      const head = branch(OP.loop, firsts, loops++);
      target(head, go);
      emit(element);
      put(OP.jump, head);
      target(head, leave);
      return;
    }
    const heads: number[] = [];
    for (let i = min; i < max; i++) {
      const head = branch(OP.split, firsts);
      heads.push(head);
      target(head, go);
      emit(element);
    }
    for (const head of heads) target(head, leave);
  };

  const around = (node: AST.LookaroundAssertion): void => {
    const [only] = node.alternatives;
    const [one] = only?.elements ?? [];
    if (node.alternatives.length === 1 && only?.elements.length === 1 && one !== undefined && isCharacter(one))
      put(OP.peek, setOf(one), Number(node.kind === 'lookbehind'), Number(node.negate));
    else if (node.kind === 'lookbehind') throw new Error(`${node.raw}, which looks back further than a character`);
    else apart(node.alternatives, Number(node.negate));
  };

  const apart = (alternatives: readonly AST.Alternative[], how: number): void => {
    const head = put(OP.ahead, 0, how);
    choice(alternatives);
    put(OP.match);
    target(head, 1);
  };

  const atomic = ({ alternatives }: AST.CapturingGroup): void => {
    const [one] = alternatives.length === 1 && alternatives[0].elements.length === 1 ? alternatives[0].elements : [];
    if (one?.type === 'Quantifier' && one.greedy && isCharacter(one.element))
      run(one.element, one.min, one.max, OP.hold);
    else apart(alternatives, 2);
  };

  const emit = (node: AST.Element): void => {
    if (isCharacter(node)) run(node, 1, 1);
    else if (node.type === 'Quantifier') quantified(node);
    else if (node.type === 'CapturingGroup' && isAtomic(node.name)) atomic(node);
    else if ((node.type === 'Group' && node.modifiers === null) || node.type === 'CapturingGroup')
      choice(node.alternatives);
    else if (node.type === 'Assertion' && (node.kind === 'lookahead' || node.kind === 'lookbehind')) around(node);
    else throw new Error(`${node.raw}, which is not known here`);
  };

  choice(alternatives);
  put(OP.match);
  const firsts = firstOfAny(alternatives);
  return { code: Int32Array.from(code), sets, runs, loops, first: firsts && unionOf(firsts) };
}

type CharacterNode = AST.Character | AST.CharacterSet | AST.CharacterClass;

function isCharacter(node: AST.Element): node is CharacterNode {
  return node.type === 'Character' || node.type === 'CharacterSet' || node.type === 'CharacterClass';
}

const keyOf = (nodes: readonly AST.Node[]): string => [...new Set(nodes.map(({ raw }) => raw))].join('\n');

/**
 * Returns the possible first characters of a match of these elements in sequence; undefined if a match may be empty.
 */
function firstOf(elements: readonly AST.Element[]): readonly CharacterNode[] | undefined {
  const found: CharacterNode[] = [];
  for (const element of elements) {
    if (element.type === 'Assertion') continue;
    const [inner, min] = element.type === 'Quantifier' ? [element.element, element.min] : [element, 1];
    const own = isCharacter(inner)
      ? [inner]
      : inner.type === 'Group' || inner.type === 'CapturingGroup'
        ? firstOfAny(inner.alternatives)
        : undefined;
    if (own === undefined) return undefined;
    found.push(...own);
    if (min > 0) return found;
  }
  return undefined;
}

function firstOfAny(alternatives: readonly AST.Alternative[]): readonly CharacterNode[] | undefined {
  const found: CharacterNode[] = [];
  for (const { elements } of alternatives) {
    const own = firstOf(elements);
    if (own === undefined) return undefined;
    found.push(...own);
  }
  return found;
}

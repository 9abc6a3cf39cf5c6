import { chars, choice, empty, joinRanges, optional, repeat, rule, sequence, sizeOf, text, within } from './node.ts';
import type { Node, Range, Rules } from './node.ts';

/** ASCII that stands for itself in a JSON string; all beyond does. */
const plain: readonly Range[] = [
  [0x20, 0x21],
  [0x23, 0x5b],
  [0x5d, 0x7f],
];
const digit = chars([48, 57]),
  anyPlain: Node = { is: 'chars', ranges: plain, beyond: true },
  hex = chars([48, 57], [65, 70], [97, 102]);

/** Rules of JSON that schemas share, defined where they are first asked for. */
export class JsonText {
  readonly rules: Rules = new Map();

  /** Defines a rule once and returns a reference to it; `define` may refer to it. */
  named(name: string, define: () => Node): Node {
    if (!this.rules.has(name)) {
      this.rules.set(name, empty); // its place, for rules that refer to it
      this.rules.set(name, define());
    }
    return rule(name);
  }

  /**
   * White space between parts: none, a space, or a line break and at most 16 spaces. Without an end to it a small model
   * writes spaces for ever.
   */
  get space(): Node {
    return this.named('space', () => optional(choice(text(' '), sequence(text('\n'), repeat(text(' '), 0, 16)))));
  }

  /** One character of a string, then more. An escaped surrogate is left out: a pair of them would count as two. */
  character(then: Node): Node {
    const escaped = this.named('escape', () =>
      choice(
        chars(...Array.from('"\\/bfnrt', (char): Range => [char.charCodeAt(0), char.charCodeAt(0)])),
        sequence(
          text('u'),
          choice(
            sequence(chars([48, 57], [65, 67], [69, 70], [97, 99], [101, 102]), hex),
            sequence(chars([68, 68], [100, 100]), chars([48, 55])),
          ),
          hex,
          hex,
        ),
      ),
    );
    return choice(sequence(anyPlain, then), sequence(text('\\'), escaped, then));
  }

  /** A string of `least` to `most` characters, from its opening to its closing quotation mark. */
  string(least = 0, most = Infinity): Node {
    return this.named(`string-${least}-${most}`, () => sequence(this.quote, this.#rest(least, most)));
  }
  /** What is left of a string. One rule for each number of characters: strings share them, and masks are fast. */
  #rest(least: number, most: number): Node {
    let rest = most === Infinity ? this.rest : this.quote;
    for (let left = 1; left <= (most === Infinity ? 0 : most - least); left++) {
      const then = rest;
      rest = this.named(`rest-${left}`, () => choice(this.quote, this.character(then)));
    }
    for (let needed = 1; needed <= least; needed++) {
      const then = rest;
      rest = this.named(`rest-${needed}-${most === Infinity ? 'more' : most - least + needed}`, () =>
        this.character(then),
      );
    }
    return rest;
  }
  /** Any characters, to the end of a string. */
  get rest(): Node {
    return this.named('rest', () => choice(this.quote, this.character(rule('rest'))));
  }
  readonly quote: Node = text('"');

  get integer(): Node {
    return this.named('integer', () => sequence(optional(text('-')), wholeNumber(18)));
  }
  get number(): Node {
    return this.named('number', () =>
      sequence(
        optional(text('-')),
        wholeNumber(15),
        optional(sequence(text('.'), repeat(digit, 1, 16))),
        optional(sequence(chars([69, 69], [101, 101]), optional(chars([43, 43], [45, 45])), repeat(digit, 1, 2))),
      ),
    );
  }
  get value(): Node {
    return this.named('value', () =>
      choice(this.object, this.array, this.string(), this.number, text('true'), text('false'), text('null')),
    );
  }
  get object(): Node {
    return this.named('object', () => this.map(this.value));
  }
  get array(): Node {
    return this.named('array', () => this.list([], this.value, 0, Infinity));
  }

  /** A member of an object. */
  member(name: Node, value: Node): Node {
    return sequence(name, text(':'), this.space, value);
  }
  /** An object of any names. */
  map(value: Node): Node {
    const member = this.member(this.string(), value);
    return this.#between('{', optional(sequence(member, repeat(sequence(this.#comma, member), 0))), '}');
  }
  /** A list of `first`, then of more items, `least` to `most` in all. */
  list(first: readonly Node[], more: Node | undefined, least: number, most: number): Node {
    const whole = first.slice(0, most),
      rest = more && most > whole.length ? more : undefined;
    // items that need not come: as many of the first as are there, then more
    let tail: Node = rest
      ? repeat(sequence(this.#comma, rest), Math.max(0, least - whole.length), most - whole.length)
      : empty;
    if (whole.length === 0) {
      if (!rest) return this.#between('[', empty, ']');
      const some = sequence(rest, repeat(sequence(this.#comma, rest), Math.max(0, least - 1), Math.max(0, most - 1)));
      return this.#between('[', least > 0 ? some : optional(some), ']');
    }
    const item = (i: number): Node[] => [...(i > 0 ? [this.#comma] : []), whole[i] as Node],
      must = Math.min(least, whole.length);
    for (let i = whole.length - 1; i >= must; i--) tail = optional(sequence(...item(i), tail));
    const needed = Array.from({ length: must }, (_, i) => item(i)).flat();
    return this.#between('[', sequence(...needed, tail), ']');
  }
  /** An object of these members in this order. */
  members(
    members: readonly { readonly name: string; readonly value: Node; readonly required: boolean }[],
    id: string,
  ): Node {
    const written = members.map(({ name, value }) => this.member(text(JSON.stringify(name)), value)),
      tails: Node[] = [];
    tails[members.length] = empty;
    for (let i = members.length - 1; i > 0; i--) {
      const here = sequence(this.#comma, written[i] as Node),
        then = tails[i + 1] as Node;
      tails[i] = this.named(`${id}-${i}`, () =>
        members[i]?.required ? sequence(here, then) : choice(then, sequence(here, then)),
      );
    }
    const must = members.findIndex(({ required }) => required),
      firsts = written.slice(0, must < 0 ? undefined : must + 1).map((each, i) => sequence(each, tails[i + 1] as Node));
    const body = choice(...firsts);
    return this.#between('{', must < 0 ? optional(body) : body, '}');
  }
  get #comma(): Node {
    return sequence(text(','), this.space);
  }
  #between(open: string, body: Node, close: string): Node {
    return sequence(text(open), this.space, body, this.space, text(close));
  }
}

/** A whole number of at most `digits` digits, without a sign. */
export const wholeNumber = (digits: number): Node =>
  choice(text('0'), sequence(chars([49, 57]), repeat(digit, 0, digits - 1)));

/** Most characters beyond ASCII that a class names, and most that one with all others leaves out. */
const named = 1024,
  leftOut = 64;

/**
 * Returns a character of a string as JSON writes it; control characters without a short escape are left out.
 * @returns undefined for ranges of many characters beyond ASCII that are not all of them
 */
export function characterOf(ranges: readonly Range[]): Node | undefined {
  const whole = joinRanges(ranges),
    raw = plain.flatMap(([from, to]) => within(whole, from, to)),
    escaped = Array.from('"\\\b\f\n\r\t').filter(
      (char) => within(whole, char.charCodeAt(0), char.charCodeAt(0)).length > 0,
    ),
    // surrogates are no characters
    beyond = [...within(whole, 0x80, 0xd7ff), ...within(whole, 0xe000, 0x10ffff)],
    all = 0x110000 - 0x80 - 0x800,
    listed = sizeOf(beyond) <= named;
  if (!listed && sizeOf(beyond) < all - leftOut) return undefined;
  return choice(
    ...(raw.length > 0 || !listed ? [{ is: 'chars', ranges: raw, beyond: !listed } as const] : []),
    ...escaped.map((char) => text(JSON.stringify(char).slice(1, -1))),
    ...(listed ? beyond : []).flatMap(([from, to]) =>
      Array.from({ length: to - from + 1 }, (_, i) => text(String.fromCodePoint(from + i))),
    ),
  );
}

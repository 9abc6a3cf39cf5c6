import { KvError } from '@kv/core';
import { object, show } from '../read/fields.ts';
import { spaceAfter, spaceBefore } from './normalizer.ts';
import type { WorkLimit } from './work-limit.ts';

/** A token that is matched in the raw text, before any other step. */
export interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** Not text: left out when decoding. */
  readonly special: boolean;
  /** Matched after the normalizer, in its normalised form. */
  readonly normalized: boolean;
  /** Also takes the white space before it (`lstrip`) or after it (`rstrip`). */
  readonly lstrip: boolean;
  readonly rstrip: boolean;
  /** Matches only if no letter, digit or underscore is adjacent. */
  readonly singleWord: boolean;
}

/**
 * Texts of tokens that end an answer, whatever a file says of them: llama.cpp's list without `</s>`, which is HTML in
 * Gemma's vocabularies and declared by files where it ends a text.
 */
export const ENDS: ReadonlySet<string> = new Set([
  ...['<|eot_id|>', '<|eom_id|>', '<|im_end|>', '<|end|>', '<|return|>', '<|call|>', '<|calls|>', '<|flush|>'],
  ...['<|endoftext|>', '<|end_of_text|>', '<end_of_turn>', '<end_of_utterance>', '<EOT>', '_<EOT>', '[EOT]', '[EOS]'],
  ...['<eos>', '<turn|>', '<|tool_response>', '<｜end▁of▁sentence｜>', '[e~['],
]);
/** Texts of tokens that are special, whatever a file says of them. */
export const MARKS: ReadonlySet<string> = new Set(['<start_of_turn>', ...ENDS]);

/** A section of a text: an added token, or the text between two. */
export interface Section {
  readonly from: number;
  readonly to: number;
  readonly token?: AddedToken;
}

/** Reads the `added_tokens` of a tokenizer.json. @throws KvError for one without an id or content */
export function addedTokens(json: unknown, where: string): readonly AddedToken[] {
  if (json == null) return [];
  if (!Array.isArray(json)) throw new KvError(where, `added_tokens must be a list, got ${show(json)}`);
  return json.map((entry: unknown) => {
    const added = object(entry, where, 'added_tokens[]');
    const { content } = added;
    if (typeof content !== 'string')
      throw new KvError(where, `added_tokens[].content must be a string, got ${show(content)}`);
    const special = added.special === true;
    const flag = (name: string): boolean => added[name] === true;
    return {
      id: tokenId(added.id, content, where),
      content,
      special: special || MARKS.has(content),
      normalized: added.normalized === undefined ? !special : flag('normalized'),
      lstrip: flag('lstrip'),
      rstrip: flag('rstrip'),
      singleWord: flag('single_word'),
    };
  });
}

/**
 * Limits. The largest vocabularies have a million tokens, the longest token a few hundred characters, the longest added
 * token a few dozen.
 */
const MOST = { id: 2 ** 22, token: 2 ** 12, added: 2 ** 9, addedTogether: 2 ** 21 } as const;

/** Checks a token id. @throws KvError unless it is an integer from 0 to 2^22 - 1 */
export function tokenId(id: unknown, token: unknown, where: string): number {
  if (Number.isInteger(id) && (id as number) >= 0 && (id as number) < MOST.id) return id as number;
  throw new KvError(
    where,
    `the id of token ${show(token)} must be an integer of at least 0 and below ${MOST.id}, got ${show(id)}`,
  );
}

/**
 * Checks a token's length, which bounds the work of joining and finding it.
 * @throws KvError for one that is too long
 */
export function checkLength(token: string, where: string, most: number = MOST.token): string {
  if (token.length <= most) return token;
  throw new KvError(where, `expected tokens of at most ${most} characters, got ${show(token)} of ${token.length}`);
}

/** Checks the size of added tokens. @throws KvError for long ones, or too many */
export function checkAdded(added: readonly AddedToken[], where: string): readonly AddedToken[] {
  const together = added.reduce((sum, { content }) => sum + checkLength(content, where, MOST.added).length, 0);
  if (together <= MOST.addedTogether) return added;
  throw new KvError(
    where,
    `expected added tokens of at most ${MOST.addedTogether} characters together, got ${together}`,
  );
}

/** Returns whether a token is white space, as in tokenizers of code: such a token is text and controls nothing. */
export const isSpace = ({ content, special }: AddedToken): boolean =>
  !special && /^[\p{White_Space}\u2581]+$/u.test(content);

/** Rules for cutting a text at added tokens. */
export interface AddedTokenRules {
  /** Whether special tokens are matched. */
  readonly parse: boolean;
  /** Whether the unit at `at` is untrusted text, in which only white-space tokens are matched. */
  readonly closed?: ((at: number) => boolean) | undefined;
}

interface Node {
  readonly next: Map<number, Node>;
  token?: AddedToken;
}

/**
 * Returns a function that cuts a text at added tokens: leftmost first, the longest of those that start together. It
 * yields `undefined` to pause. `form` returns the text under which a token is found.
 */
export function cutter(
  tokens: readonly AddedToken[],
  form: (content: string) => string,
): (text: string, reading: AddedTokenRules, work: WorkLimit) => Generator<Section | undefined, void> {
  const root: Node = { next: new Map() };
  for (const token of tokens) {
    const content = form(token.content);
    let node = root;
    for (let i = 0; i < content.length; i++) {
      const unit = content.charCodeAt(i);
      const next: Node = node.next.get(unit) ?? { next: new Map() };
      node.next.set(unit, next);
      node = next;
    }
    if (node !== root) node.token = token;
  }
  return function* (text, { parse, closed }, work) {
    let done = 0;
    for (let at = root.next.size === 0 ? text.length : 0; at < text.length; ) {
      work.spend(1);
      if (work.due) yield;
      const found = longest(root, text, at, closed, work);
      if (found === undefined) {
        at++;
        continue;
      }
      const { token, end } = found;
      const start = at;
      at = end;
      if ((token.special && !parse) || (token.singleWord && touched(text, start, end))) continue;
      const from = token.lstrip ? spaceBefore(text, start, done) : start;
      if (token.rstrip) at = spaceAfter(text, end);
      if (from > done) yield { from: done, to: from };
      yield { from, to: at, token };
      done = at;
    }
    if (done < text.length) yield { from: done, to: text.length };
  };
}

function longest(
  root: Node,
  text: string,
  start: number,
  closed: AddedTokenRules['closed'],
  work: WorkLimit,
): { token: AddedToken; end: number } | undefined {
  let best: { token: AddedToken; end: number } | undefined;
  let node = root.next.get(text.charCodeAt(start));
  let untrusted = false;
  for (let at = start + 1; node !== undefined; at++) {
    untrusted ||= closed?.(at - 1) === true;
    if (node.token !== undefined && (!untrusted || isSpace(node.token))) best = { token: node.token, end: at };
    node = at < text.length ? node.next.get(text.charCodeAt(at)) : undefined;
    if (node === undefined) work.spend(at - start);
  }
  return best;
}

/** Returns whether a word character is adjacent to `[start, end)`. */
function touched(text: string, start: number, end: number): boolean {
  return WORD_BEFORE.test(text.slice(Math.max(0, start - 2), start)) || WORD_AFTER.test(text.slice(end, end + 2));
}

const WORD_BEFORE = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]$/u;
const WORD_AFTER = /^[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]/u;

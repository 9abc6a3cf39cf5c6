import { KvError } from '@kv/core';
import { sum } from '../numbers.ts';

/** A text, and the name that errors call it by. */
export interface NamedText {
  readonly name: string;
  readonly text: string;
}
/** Consecutive tokens of a text. */
export interface Stretch {
  readonly ids: readonly number[];
  /** Whether it trains nothing and tells how well the gate predicts. */
  readonly heldOut: boolean;
}

interface Cutting {
  readonly shortest: number;
  readonly longest: number;
  /** Most tokens of all stretches together. */
  readonly tokens: number;
}

const GOLDEN = (Math.sqrt(5) - 1) / 2;
/** One of this many stretches, or texts, is held out. */
const HELD_OUT = 5;

/**
 * Cuts texts into stretches of `shortest` to `longest` tokens, and, where there are more than `tokens` tokens, takes as many
 * as fit, evenly over all texts. Held out is every fifth text, the last one of fewer, or, of a single text, every fifth
 * stretch, the last one of fewer.
 *
 * @throws KvError for no text, and for texts that leave nothing to train on or nothing to hold out
 */
export function cutStretches(
  texts: readonly { readonly name: string; readonly ids: readonly number[] }[],
  { shortest, longest, tokens }: Cutting,
): readonly Stretch[] {
  if (texts.length === 0) throw new KvError('text', 'expected at least one text, got none');
  const all = texts.flatMap(({ ids }, of) => cut(ids, shortest, longest).map((part) => ({ of, ids: part }))),
    taken = evenly(all, tokens, Math.floor(tokens / shortest)),
    used = [...new Set(taken.map(({ of }) => of))],
    // of texts, or of the stretches of the only one
    of = used.length > 1 ? used.length : taken.length,
    isHeldOut = (at: number): boolean => (of < HELD_OUT ? at === of - 1 : at % HELD_OUT === HELD_OUT - 1),
    stretches = taken.map(({ of, ids }, i) => ({ ids, heldOut: isHeldOut(used.length > 1 ? used.indexOf(of) : i) }));
  if (!stretches.some(({ heldOut }) => heldOut) || stretches.every(({ heldOut }) => heldOut))
    throw new KvError(
      'text',
      `expected texts of at least ${2 * shortest} tokens, so that some train and some are held out, got ${texts.map(({ name, ids }) => `${ids.length} in '${name}'`).join(', ')}`,
    );
  return stretches;
}

/**
 * Returns as many of the parts as have at most `tokens` tokens together, evenly over all of them; at least two.
 * @param most parts that can have so few: there may be far more
 */
function evenly<T extends { readonly ids: readonly number[] }>(
  all: readonly T[],
  tokens: number,
  most: number,
): readonly T[] {
  for (let count = Math.min(all.length, Math.max(2, most)); ; count--) {
    const taken = Array.from({ length: count }, (_, i) => all[Math.floor((i * all.length) / count)]);
    if (count <= 2 || sum(taken.map(({ ids }) => ids.length)) <= tokens) return taken;
  }
}

/** Returns parts of `shortest` to `longest` tokens, of all lengths between; a rest that is shorter is left out. */
function cut(ids: readonly number[], shortest: number, longest: number): readonly (readonly number[])[] {
  const parts: (readonly number[])[] = [];
  for (let from = 0; ids.length - from >= shortest; ) {
    const length = shortest + Math.floor((((parts.length + 1) * GOLDEN) % 1) * (longest - shortest + 1)),
      part = ids.slice(from, from + length);
    parts.push(part);
    from += part.length;
  }
  return parts;
}

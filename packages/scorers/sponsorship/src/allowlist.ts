import { checkNumber, isPositiveInteger } from '@kv/core';
import type { Tokens } from '@kv/core';
import { positionsOf } from './detector.ts';
import type { Finder, Match, TextDetector } from './detector.ts';

export interface AllowOptions {
  /** Which anchors may sponsor, by their text. @defaultValue all */
  readonly pattern?: RegExp;
  /**
   * Which anchors may sponsor, by the token in which they end: a system prompt, say, and not what a tool sent.
   * @defaultValue all
   */
  readonly place?: (position: number) => boolean;
  /** Most anchors of one text, the first ones; letters and digits count, case does not. @defaultValue no limit */
  readonly most?: number;
}

/**
 * A detector of the anchors that a finder finds and that are allowed: others sponsor nothing, so that injected ones
 * take no slot.
 *
 * @remarks Transactional Attention, section 5.3, for pattern and place; the limit for each pattern is ours.
 * @throws KvError if `most` is not a positive whole number.
 */
export function allowed(find: Finder, { pattern, place, most }: AllowOptions): TextDetector {
  if (most !== undefined) checkNumber('allowed', 'most', most, 'a positive whole number of anchors', isPositiveInteger);
  const may = pattern && new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, ''));
  return function allowed(tokens: Tokens) {
    const seen = new Map<string, number>();
    return positionsOf(
      find(tokens).filter(({ text, position }: Match) => {
        if ((may && !may.test(text)) || (place && !place(position))) return false;
        const key = text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, ''),
          count = (seen.get(key) ?? 0) + 1;
        seen.set(key, count);
        return most === undefined || count <= most;
      }),
    );
  };
}

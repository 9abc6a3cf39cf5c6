import type { Encode } from './haystack.ts';

/** A text of some size, with its question and answer. */
export interface FittedText {
  readonly context: string;
  readonly question: string;
}

/** Thrown if a task does not fit a length. */
export class NoRoomError extends RangeError {
  /** Tokens that the task needs at least. */
  readonly least: number;
  constructor(what: string, least: number, tokens: number) {
    super(`${what}: tokens must be at least ${least}, which its shortest text and answer take, got ${tokens}`);
    this.least = least;
  }
}

/**
 * Returns the largest text, of size `least` to `most`, that fits `tokens` with its question and answer; found by
 * doubling, then bisection.
 * @throws NoRoomError if not even `least` fits
 */
export function fit<T extends FittedText>(
  what: string,
  encode: Encode,
  room: { readonly tokens: number; readonly maxNewTokens: number; readonly least?: number; readonly most?: number },
  build: (size: number) => T,
): T {
  const { tokens, maxNewTokens, least = 1, most = 2 ** 24 } = room,
    length = ({ context, question }: T): number => encode(context + question).ids.length + maxNewTokens;
  let low = least,
    best = build(low),
    high = Math.min(2 * low, most + 1);
  if (length(best) > tokens) throw new NoRoomError(what, length(best), tokens);
  for (let next = best; high <= most; high = Math.min(2 * high, most + 1)) {
    next = build(high);
    if (length(next) > tokens) break;
    [low, best] = [high, next];
  }
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2),
      next = build(middle);
    if (length(next) <= tokens) [low, best] = [middle, next];
    else high = middle;
  }
  return best;
}

import type { Tokens } from '@kv/core';
import type { Token, Tokenizer } from 'node-llama-cpp';

/** Preceding tokens to detokenize with, so that the tokenizer knows whether a word begins there. */
const BEFORE = 8;
/** How an incomplete character is decoded. */
const HALF = '\uFFFD';

/**
 * Returns ids, text and offsets of a sequence; tokens that together make one character all have its text.
 *
 * @param known result for the sequence's first tokens, which are not decoded again.
 */
export function tokensOf(ids: readonly Token[], { detokenize }: Pick<Tokenizer, 'detokenize'>, known?: Tokens): Tokens {
  const first = known && !known.text.endsWith(HALF) ? known : { ids: [], text: '', offsets: [] },
    offsets = [...first.offsets];
  let { text } = first,
    done = first.ids.length;
  for (let end = done + 1; end <= ids.length; end++) {
    const piece = detokenize(ids.slice(done, end), true, ids.slice(Math.max(0, done - BEFORE), done));
    if (piece.endsWith(HALF) && end < ids.length && end - done < 4) continue;
    while (offsets.length < end) offsets.push([text.length, text.length + piece.length]);
    text += piece;
    done = end;
  }
  return { ids, text, offsets };
}

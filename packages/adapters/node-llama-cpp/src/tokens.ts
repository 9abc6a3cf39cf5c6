import type { Tokens } from '@kv/core';

/** What is used of a model of node-llama-cpp. */
export interface LlamaModelLike {
  detokenize(tokens: readonly number[], specialTokens?: boolean, lastTokens?: readonly number[]): string;
  readonly fileInsights?: {
    readonly isRecurrent?: boolean;
    readonly isHybrid?: boolean;
    readonly swaSize?: number | undefined;
  };
}
/** What is used of a `LlamaContextSequence`. */
export interface LlamaSequenceLike {
  readonly contextTokens: readonly number[];
  readonly context: { readonly contextSize: number };
  readonly model: LlamaModelLike;
}

/** Ids, text and offsets of a sequence; tokens that make up one character have its text together. */
export function tokensOf(ids: readonly number[], { detokenize }: Pick<LlamaModelLike, 'detokenize'>): Tokens {
  const offsets: [number, number][] = [];
  let text = '',
    done = 0;
  for (let end = 1; end <= ids.length; end++) {
    const piece = detokenize(ids.slice(done, end), true, ids.slice(Math.max(0, done - 8), done));
    if (piece.endsWith('\uFFFD') && end < ids.length && end - done < 4) continue;
    while (offsets.length < end) offsets.push([text.length, text.length + piece.length]);
    text += piece;
    done = end;
  }
  return { ids, text, offsets };
}

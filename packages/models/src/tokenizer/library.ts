import * as library from '@huggingface/tokenizers';

/** Joins the pieces of words by a list of merges. */
interface Bpe {
  readonly tokens_to_ids: ReadonlyMap<string, number>;
  readonly unk_token_id?: number;
  readonly fuse_unk: boolean;
  encode(words: readonly string[]): readonly string[];
}

/** What is used of the library; its declarations name files in a way that TypeScript's `nodenext` does not find. */
interface Library {
  readonly BPE: new (model: object) => Bpe;
  /** `pattern`: an expression of Oniguruma in the notation of JavaScript. */
  readonly SplitPreTokenizer: new (
    part: object,
  ) => { readonly pattern: RegExp | null };
}

export const BPE: Library['BPE'] = (library as unknown as Library).BPE;
export const SplitPreTokenizer: Library['SplitPreTokenizer'] = (library as unknown as Library).SplitPreTokenizer;

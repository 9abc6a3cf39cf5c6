import * as library from '@huggingface/tokenizers';

/** What is used of the library; its declarations name files in a way that TypeScript's `nodenext` does not find. */
interface Library {
  /** `pattern`: an expression of Oniguruma in the notation of JavaScript. */
  readonly SplitPreTokenizer: new (
    part: object,
  ) => { readonly pattern: RegExp | null };
}

export const SplitPreTokenizer: Library['SplitPreTokenizer'] = (library as unknown as Library).SplitPreTokenizer;

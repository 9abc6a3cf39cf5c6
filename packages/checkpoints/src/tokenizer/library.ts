import * as library from '@huggingface/tokenizers';

/**
 * The part of the library that is used; TypeScript's `nodenext` cannot resolve the files that its declarations name.
 */
interface Library {
  /** `pattern` is an Oniguruma expression in JavaScript notation. */
  readonly SplitPreTokenizer: new (
    part: object,
  ) => { readonly pattern: RegExp | null };
}

export const SplitPreTokenizer: Library['SplitPreTokenizer'] = (library as unknown as Library).SplitPreTokenizer;

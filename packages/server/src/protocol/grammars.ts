import { KvError } from '@kv/core';
import type { AnswerStructure, Grammar, Model } from '@kv/models';

/** What an answer must look like. */
export type AnswerForm =
  | { readonly kind: 'json' }
  | { readonly kind: 'schema'; readonly schema: object | boolean }
  | { readonly kind: 'structure'; readonly structure: AnswerStructure; readonly marks?: readonly string[] };
export interface Grammars {
  compile(form: AnswerForm): Promise<Grammar>;
}
/** To be replaced by @kv/grammars once its branch is there. */
export const grammarsOf = (_: Model): Grammars => ({
  compile: async () => {
    throw new KvError('schema', 'answers cannot be constrained yet');
  },
});

import type { AnswerStructure } from '@kv/checkpoints';

/** What an answer must look like. */
export type AnswerForm =
  /** Any JSON object. */
  | { readonly kind: 'json' }
  /** JSON that fits a schema (draft 2020-12 and what older drafts share with it). */
  | { readonly kind: 'schema'; readonly schema: object | boolean }
  /** Texts, tags and values that fit schemas, as formats of tool calls describe them. */
  | {
      readonly kind: 'structure';
      readonly structure: AnswerStructure;
      /** Texts of special tokens that are text here; all other special tokens may not come. @defaultValue none */
      readonly marks?: readonly string[];
      /** Texts of special tokens that end an answer, as the model's end tokens do. @defaultValue none */
      readonly ends?: readonly string[];
    };

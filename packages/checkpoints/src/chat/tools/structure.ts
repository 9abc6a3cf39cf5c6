/**
 * What an answer must look like, as xgrammar's structural tags: texts, values that fit a JSON schema, grammars, and
 * tags that begin where a trigger is written in free text. https://xgrammar.mlc.ai/docs/tutorials/structural_tag
 */
export type AnswerStructure =
  | { readonly type: 'const_string'; readonly value: string }
  | { readonly type: 'json_schema'; readonly json_schema: object | boolean }
  | { readonly type: 'any_text' }
  | { readonly type: 'regex'; readonly pattern: string }
  /** A grammar in EBNF, whose rule `root` is meant. */
  | { readonly type: 'grammar'; readonly grammar: string }
  /** Parameters as Qwen3-Coder writes them, `<parameter=NAME>\nVALUE\n</parameter>`, which fit a schema of an object. */
  | { readonly type: 'qwen_xml_parameter'; readonly json_schema: object | boolean }
  | { readonly type: 'sequence'; readonly elements: readonly AnswerStructure[] }
  | { readonly type: 'or'; readonly elements: readonly AnswerStructure[] }
  | AnswerTag
  /** Free text, in which each of the `triggers` begins one of the tags. */
  | ({ readonly type: 'triggered_tags'; readonly triggers: readonly string[] } & AnswerTags)
  /** Tags alone, with a text between two. */
  | ({ readonly type: 'tags_with_separator'; readonly separator: string } & AnswerTags);

/** A text that begins a part of an answer, what that part must look like, and the text that ends it. */
export interface AnswerTag {
  readonly type: 'tag';
  readonly begin: string;
  readonly content: AnswerStructure;
  readonly end: string;
}

interface AnswerTags {
  readonly tags: readonly AnswerTag[];
  /** Whether the answer must have a tag. @defaultValue false */
  readonly at_least_one?: boolean;
  /** Whether the answer ends with its first tag. @defaultValue false */
  readonly stop_after_first?: boolean;
}

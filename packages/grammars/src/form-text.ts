import type { AnswerStructure } from '@kv/checkpoints';
import { KvError } from '@kv/core';
import type { AnswerForm } from './answer-form.ts';
import { objectGrammar, schemaGrammar } from './schema/schema.ts';

/** A form as xgrammar takes it: a grammar in EBNF, or structural tags in JSON. */
export interface FormText {
  readonly is: 'ebnf' | 'structure';
  readonly text: string;
}

/** @throws KvError for a form that cannot be followed */
export function formText(form: AnswerForm): FormText {
  switch (form.kind) {
    case 'json':
      return { is: 'ebnf', text: objectGrammar() };
    case 'schema':
      return { is: 'ebnf', text: schemaGrammar(form.schema) };
    case 'structure':
      return { is: 'structure', text: JSON.stringify({ type: 'structural_tag', format: withGrammars(form.structure) }) };
    default:
      throw new KvError('form', `expected kind json, schema or structure, got ${JSON.stringify((form as { kind?: unknown }).kind)}`);
  }
}

/** Writes the schemas of a structure as grammars, since xgrammar leaves out keywords that it does not know. */
function withGrammars(structure: AnswerStructure): AnswerStructure {
  switch (structure.type) {
    case 'json_schema':
      return { type: 'grammar', grammar: schemaGrammar(structure.json_schema) };
    case 'qwen_xml_parameter':
      throw new KvError('structure', 'qwen_xml_parameter cannot be followed: write its parameters as tags');
    case 'sequence':
    case 'or':
      return { ...structure, elements: structure.elements.map(withGrammars) };
    case 'tag':
      return { ...structure, content: withGrammars(structure.content) };
    case 'triggered_tags':
    case 'tags_with_separator':
      return { ...structure, tags: structure.tags.map((tag) => ({ ...tag, content: withGrammars(tag.content) })) };
    default:
      return structure;
  }
}

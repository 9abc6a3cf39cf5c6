import { KvError } from '@kv/core';
import type { AnswerForm } from './answer-form.ts';
import { objectGrammar, schemaGrammar } from './schema/schema.ts';
import { withGrammars } from './structure-text.ts';

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
      return {
        is: 'structure',
        text: JSON.stringify({ type: 'structural_tag', format: withGrammars(form.structure) }),
      };
  }
}

/** @throws KvError for what is no form */
export function expectForm(form: AnswerForm): void {
  const { kind } = Object(form) as { readonly kind?: unknown };
  if (!['json', 'schema', 'structure'].includes(kind as string))
    throw new KvError(
      'form',
      `expected { kind: 'json' }, 'schema' or 'structure', got ${form === Object(form) ? `kind ${JSON.stringify(kind)}` : typeof form}`,
    );
}

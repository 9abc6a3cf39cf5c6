import { KvError } from '@kv/core';
import type { AnswerForm, VocabularyModel } from '@kv/grammars';
import type { Grammar } from './constraint.ts';

/** Returns the grammar that is given, or that of a schema. @throws KvError for both, and as `answerGrammar` */
export async function givenGrammar(
  model: VocabularyModel,
  { schema, grammar }: { readonly schema?: object | boolean | undefined; readonly grammar?: Grammar | undefined },
): Promise<Grammar | undefined> {
  if (schema === undefined) return grammar;
  if (grammar) throw new KvError('schema', 'expected a schema or a grammar, got both');
  return answerGrammar(model, { kind: 'schema', schema });
}

/**
 * Returns the grammar of what answers of a model must look like. What compiles grammars is loaded only here.
 * @throws KvError, one sentence, for a form that cannot be followed, and where grammars are not there
 */
export async function answerGrammar(model: VocabularyModel, form: AnswerForm): Promise<Grammar> {
  const { grammarsOf } = (await import('@kv/grammars')) as Partial<typeof import('@kv/grammars')>;
  if (grammarsOf) return grammarsOf(model).compile(form);
  throw new KvError(
    'schema',
    'expected @kv/grammars, which kv.min.js leaves out: build the page from @kv/models instead',
  );
}

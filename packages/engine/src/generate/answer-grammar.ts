import { KvError } from '@kv/core';
import type { AnswerForm, VocabularyModel } from '@kv/grammars';
import type { Model } from '../memory/runtime.ts';
import type { Grammar } from './constraint.ts';
import { turnAnswer } from './turn-answer.ts';

/** A model of answers; its chat template is read where a prompt is given. */
type AnswerModel = VocabularyModel & Pick<Model, 'chatTemplate'>;

/**
 * Returns the grammar that is given, or that of a schema.
 * @param prompt as of `answerGrammar`
 * @throws KvError for both, and as `answerGrammar`
 */
export async function givenGrammar(
  model: AnswerModel,
  { schema, grammar }: { readonly schema?: object | boolean | undefined; readonly grammar?: Grammar | undefined },
  prompt?: readonly number[],
): Promise<Grammar | undefined> {
  if (schema === undefined) return grammar;
  if (grammar) throw new KvError('schema', 'expected a schema or a grammar, got both');
  return answerGrammar(model, { kind: 'schema', schema }, prompt);
}

/**
 * Returns the grammar of what answers of a model must look like. What compiles grammars is loaded only here.
 * @param prompt ids in the words of the model's chat template: JSON then stands where the text of their answer does, after
 * its reasoning and in its channel. @defaultValue the whole answer has the form
 * @throws KvError, one sentence, for a form that cannot be followed, and where grammars are not there
 */
export async function answerGrammar(
  model: AnswerModel,
  form: AnswerForm,
  prompt?: readonly number[],
): Promise<Grammar> {
  const { grammarsOf } = (await import('@kv/grammars')) as Partial<typeof import('@kv/grammars')>;
  if (grammarsOf) return grammarsOf(model).compile(prompt ? inTurn(model, form, prompt) : form);
  throw new KvError(
    'schema',
    'expected @kv/grammars, which kv.min.js leaves out: build the page from @kv/models instead',
  );
}

/** Returns a form of the text of an answer as one of the whole answer. */
function inTurn(model: AnswerModel, form: AnswerForm, prompt: readonly number[]): AnswerForm {
  const answer = form.kind === 'structure' ? undefined : turnAnswer(model, prompt);
  if (answer === undefined || form.kind === 'structure') return form;
  const json_schema = form.kind === 'schema' ? form.schema : { type: 'object' };
  return { kind: 'structure', structure: answer.structure({ type: 'json_schema', json_schema }), marks: answer.marks };
}

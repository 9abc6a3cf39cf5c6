import { KvError } from '@kv/core';
import { expectRead, type TemplateVariables } from '@kv/checkpoints';
import { cutTurn, renderedIds } from '@kv/models';
import type { ChatTemplate, CutTurn, Model } from '@kv/models';

/** Flags that say whether a text is a turn of a chat. */
export interface TurnOptions {
  /** Always, never or, by default, if the model has a chat template. */
  readonly turn?: boolean | undefined;
  /** Values of the chat template's variables. */
  readonly chatTemplateKwargs?: TemplateVariables | undefined;
}

/**
 * Returns the chat template that a text is put into; undefined for a text as it stands.
 * @throws KvError for a turn without a template, and for variables that nothing reads
 */
export function turnTemplate(
  { name, chatTemplate }: Model,
  { turn, chatTemplateKwargs: variables }: TurnOptions,
): ChatTemplate | undefined {
  const template = turn === false ? undefined : chatTemplate?.();
  if (turn && !template) throw new KvError('--chat', `expected a model with a chat template, got ${name}`);
  if (variables && !template)
    throw new KvError(
      '--chat-template-kwargs',
      `expected a turn of a model with a chat template, got ${turn === false ? '--raw' : name}`,
    );
  if (template) expectRead(template, variables);
  return template;
}

/** What stands for a question while none is known, and for a document that was read before. */
const [ANY_QUESTION, ANY_DOCUMENT] = ['?', 'x'];

/** Encodes a document, of which questions are asked later: as it stands, or as a turn that is still open. */
export function documentIds(
  model: Model,
  template: ChatTemplate | undefined,
  text: string,
  variables: TemplateVariables | undefined,
): readonly number[] {
  const { tokenizer } = model;
  if (!template) return tokenizer.encode(text).ids;
  return renderedIds(tokenizer, cut(model, template, text, ANY_QUESTION, variables).context);
}

/** Encodes a question about a document that `documentIds` encoded, and what follows it in the turn. */
export function questionIds(
  model: Model,
  template: ChatTemplate | undefined,
  question: string,
  variables: TemplateVariables | undefined,
): readonly number[] {
  const { tokenizer } = model;
  if (!template) return tokenizer.encode(question, { special: false }).ids;
  return renderedIds(tokenizer, cut(model, template, ANY_DOCUMENT, question, variables).question);
}

/** Whether a text begins as a turn of a user, which no control token has ended. */
export function isOpenTurn({ tokenizer }: Model, template: ChatTemplate, ids: readonly number[]): boolean {
  const turn = cutTurn(template, ANY_DOCUMENT, ANY_QUESTION);
  if (turn === undefined) return false;
  const text = turn.context.text.slice(0, -ANY_DOCUMENT.length),
    opening = renderedIds(tokenizer, { text, untrusted: [] }),
    controls = new Set(tokenizer.specials.values());
  return (
    opening.length > 1 &&
    // the last token may have been joined with the document's first
    opening.slice(0, -1).every((id, i) => id === ids[i]) &&
    !ids.slice(opening.length).some((id) => controls.has(id))
  );
}

function cut(
  { name }: Model,
  template: ChatTemplate,
  document: string,
  question: string,
  variables: TemplateVariables | undefined,
): CutTurn {
  const turn = cutTurn(template, document, question, { variables });
  if (turn === undefined)
    throw new KvError(
      '--question',
      `expected a chat template that writes the question as it stands, got that of ${name}: --raw asks without it`,
    );
  return turn;
}

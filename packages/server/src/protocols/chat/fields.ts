import Type from 'typebox';
import type { Static } from 'typebox';
import { closed, common, count, flag, LIMITS, only } from '../../protocol/schema.ts';

const textPart = Type.Object(
  { type: Type.Literal('text'), text: Type.String({ description: 'a text' }) },
  { additionalProperties: false, description: 'an object with type and text' },
);
/** Validates a content part by its type, so that an image is refused for its type. */
const ofType = (type: object): object => ({ type: 'object', properties: { type }, required: ['type'] });
const part = {
  if: ofType({ const: 'text' }),
  then: textPart,
  else: ofType({ const: 'text', description: "'text', since the model reads nothing else" }),
};
const toolCall = Type.Object(
  {
    id: Type.Optional(Type.String({ maxLength: LIMITS.name, description: 'a text' })),
    type: Type.Optional(Type.Literal('function', { description: "'function'" })),
    function: Type.Object(
      {
        name: Type.String({ maxLength: LIMITS.name, description: 'a text' }),
        arguments: Type.Optional(Type.String({ description: 'a text of JSON' })),
      },
      { additionalProperties: false, description: 'an object with name and arguments' },
    ),
  },
  { additionalProperties: false, description: 'an object with id, type and function' },
);
/** One message of any role; `conversation` says which role may have which field. */
const message = Type.Object(
  {
    role: Type.Enum(['system', 'developer', 'user', 'assistant', 'tool'], {
      description: "'system', 'developer', 'user', 'assistant' or 'tool'",
    }),
    content: Type.Optional(
      Type.Unsafe<string | readonly Static<typeof textPart>[]>({
        if: { type: 'array' },
        then: { type: 'array', items: part, maxItems: LIMITS.messages, description: 'parts of type text' },
        else: { type: 'string', description: 'a text, or parts of type text' },
      }),
    ),
    name: Type.Optional(Type.String({ maxLength: LIMITS.name, description: 'a text' })),
    refusal: only([''], 'an answer was a refusal or has content'),
    annotations: Type.Optional(
      Type.Array(Type.Unknown(), { maxItems: LIMITS.labels, description: 'a list, which labels the content' }),
    ),
    tool_calls: Type.Optional(
      Type.Array(toolCall, { maxItems: LIMITS.calls, description: `up to ${LIMITS.calls} calls of functions` }),
    ),
    tool_call_id: Type.Optional(Type.String({ maxLength: LIMITS.name, description: 'a text' })),
  },
  { additionalProperties: false, description: 'an object with role and content' },
);
export type RequestMessage = Static<typeof message>;

/** `POST /v1/chat/completions`. */
export const chatRequest = Type.Object(
  {
    ...common,
    messages: Type.Array(message, {
      minItems: 1,
      maxItems: LIMITS.messages,
      description: `from 1 to ${LIMITS.messages} messages`,
    }),
    chat_template_kwargs: Type.Optional(
      Type.Unsafe<Readonly<Record<string, unknown>>>({
        type: 'object',
        description: 'an object of variables of the chat template',
        maxProperties: LIMITS.labels,
      }),
    ),
    max_completion_tokens: Type.Optional(count(0, 'a whole number of tokens')),
    logprobs: flag,
    top_logprobs: Type.Optional(count(0, 'a whole number from 0 to 20', 20)),
  },
  closed,
);

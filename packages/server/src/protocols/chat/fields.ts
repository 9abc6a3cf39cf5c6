import Type from 'typebox';
import type { Static } from 'typebox';
import {
  byType,
  closed,
  common,
  count,
  effort,
  flag,
  LIMITS,
  NAME,
  ofType,
  templateVariables,
} from '../../protocol/schema.ts';

const fn = Type.Object(
  {
    name: NAME,
    description: Type.Optional(Type.String({ description: 'a text' })),
    parameters: Type.Optional(Type.Unsafe<object>({ type: 'object', description: 'a JSON schema of an object' })),
    strict: flag,
  },
  { additionalProperties: false, description: 'an object with name, description and parameters' },
);
const FUNCTION = Type.Literal('function', { description: "'function'" });
const CHOICES = ['none', 'auto', 'required'] as const;
/** What answers may call. */
const calling = {
  tools: Type.Optional(
    Type.Unsafe<readonly { readonly function: Static<typeof fn> }[]>({
      type: 'array',
      items: byType(
        'function',
        Type.Object({ type: FUNCTION, function: fn }, closed),
        ofType("'function', since nothing else can be called", 'function'),
      ),
      maxItems: LIMITS.tools,
      description: `up to ${LIMITS.tools} functions`,
    }),
  ),
  tool_choice: Type.Optional(
    Type.Unsafe<(typeof CHOICES)[number] | { readonly function: { readonly name: string } }>({
      if: { type: 'object' },
      then: Type.Object({ type: FUNCTION, function: Type.Object({ name: NAME }, closed) }, closed),
      else: { enum: CHOICES, description: "'none', 'auto', 'required' or the function that must be called" },
    }),
  ),
  parallel_tool_calls: flag,
};

const schemaForm = Type.Object(
  {
    name: NAME,
    description: Type.Optional(Type.String({ description: 'a text' })),
    schema: Type.Unsafe<object | boolean>({
      anyOf: [{ type: 'object' }, { type: 'boolean' }],
      description: 'a JSON schema',
    }),
    strict: flag,
  },
  { additionalProperties: false, description: 'an object with name and schema' },
);
/** What answers must look like. */
const responseFormat = Type.Optional(
  Type.Unsafe<
    | { readonly type: 'text' }
    | { readonly type: 'json_object' }
    | { readonly type: 'json_schema'; readonly json_schema: Static<typeof schemaForm> }
  >(
    byType('json_schema', Type.Object({ type: Type.Literal('json_schema'), json_schema: schemaForm }, closed), {
      ...ofType("'text', 'json_object' or 'json_schema'", 'text', 'json_object'),
      additionalProperties: false,
    }),
  ),
);

const textPart = Type.Object(
  { type: Type.Literal('text'), text: Type.String({ description: 'a text' }) },
  { additionalProperties: false, description: 'an object with type and text' },
);
const refusalPart = Type.Object(
  { type: Type.Literal('refusal'), refusal: Type.String({ description: 'a text' }) },
  { additionalProperties: false, description: 'an object with type and refusal' },
);
const part = byType(
  'text',
  textPart,
  byType('refusal', refusalPart, ofType("'text', since the model reads nothing else", 'text', 'refusal')),
);
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
      Type.Unsafe<string | readonly (Static<typeof textPart> | Static<typeof refusalPart>)[]>({
        if: { type: 'array' },
        then: { type: 'array', items: part, maxItems: LIMITS.messages, description: 'parts of type text' },
        else: { type: 'string', description: 'a text, or parts of type text' },
      }),
    ),
    name: Type.Optional(Type.String({ maxLength: LIMITS.name, description: 'a text' })),
    refusal: Type.Optional(Type.String({ description: 'a text' })),
    annotations: Type.Optional(
      Type.Array(Type.Unknown(), { maxItems: LIMITS.labels, description: 'a list, which labels the content' }),
    ),
    tool_calls: Type.Optional(
      Type.Array(toolCall, { maxItems: LIMITS.calls, description: `up to ${LIMITS.calls} calls of functions` }),
    ),
    reasoning_content: Type.Optional(Type.String({ description: 'a text' })),
    tool_call_id: Type.Optional(Type.String({ maxLength: LIMITS.name, description: 'a text' })),
  },
  { additionalProperties: false, description: 'an object with role and content' },
);
export type RequestMessage = Static<typeof message>;

/** `POST /v1/chat/completions`. */
export const chatRequest = Type.Object(
  {
    ...common,
    ...calling,
    response_format: responseFormat,
    messages: Type.Array(message, {
      minItems: 1,
      maxItems: LIMITS.messages,
      description: `from 1 to ${LIMITS.messages} messages`,
    }),
    chat_template_kwargs: templateVariables,
    reasoning_effort: effort,
    max_completion_tokens: Type.Optional(count(0, 'a whole number of tokens')),
    logprobs: flag,
    top_logprobs: Type.Optional(count(0, 'a whole number from 0 to 20', 20)),
  },
  closed,
);

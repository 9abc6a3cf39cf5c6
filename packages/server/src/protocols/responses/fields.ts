import Type from 'typebox';
import type { Static } from 'typebox';
import {
  byType,
  closed,
  count,
  effort,
  extensions,
  flag,
  label,
  labels,
  LIMITS,
  NAME,
  ofType,
  only,
  sampling,
  templateVariables,
  modelName,
} from '../../protocol/schema.ts';

const text = Type.String({ description: 'a text' });
const id = Type.Optional(Type.String({ maxLength: LIMITS.name, description: 'a text' }));
const status = Type.Optional(
  Type.Enum(['in_progress', 'completed', 'incomplete'], { description: "'in_progress', 'completed' or 'incomplete'" }),
);
const list = Type.Optional(Type.Array(Type.Unknown(), { maxItems: LIMITS.labels, description: 'a list' }));

/** A part of a message: of what was sent, or of an answer, whose labels the model does not see. */
const textPart = Type.Object(
  { type: Type.Enum(['input_text', 'output_text', 'text']), text, annotations: list, logprobs: list },
  { additionalProperties: false, description: 'an object with type and text' },
);
const PARTS = ['input_text', 'output_text', 'text'];
const refusalPart = Type.Object(
  { type: Type.Literal('refusal'), refusal: text },
  { additionalProperties: false, description: 'an object with type and refusal' },
);
const texts = Type.Unsafe<
  string | readonly ({ readonly type?: string; readonly text: string } | Static<typeof refusalPart>)[]
>({
  if: { type: 'array' },
  then: {
    type: 'array',
    items: {
      if: { type: 'object', properties: { type: { enum: PARTS } }, required: ['type'] },
      then: textPart,
      else: byType(
        'refusal',
        refusalPart,
        ofType("'input_text' or 'output_text', since the model reads nothing else", ...PARTS, 'refusal'),
      ),
    },
    maxItems: LIMITS.messages,
  },
  else: { type: 'string', description: 'a text, or parts of type input_text' },
});

const message = Type.Object(
  {
    type: Type.Optional(Type.Literal('message')),
    role: Type.Enum(['system', 'developer', 'user', 'assistant'], {
      description: "'system', 'developer', 'user' or 'assistant'",
    }),
    content: texts,
    ...{ id, status },
    phase: label,
  },
  { additionalProperties: false, description: 'an object with role and content' },
);
const call = Type.Object(
  {
    type: Type.Literal('function_call'),
    call_id: Type.String({ maxLength: LIMITS.name, description: 'a text' }),
    name: Type.String({ maxLength: LIMITS.name, description: 'a text' }),
    arguments: Type.String({ description: 'a text of JSON' }),
    ...{ id, status },
  },
  { additionalProperties: false, description: 'an object with call_id, name and arguments' },
);
const result = Type.Object(
  {
    type: Type.Literal('function_call_output'),
    call_id: Type.String({ maxLength: LIMITS.name, description: 'a text' }),
    output: texts,
    ...{ id, status },
  },
  { additionalProperties: false, description: 'an object with call_id and output' },
);
const thoughts = Type.Optional(
  Type.Array(Type.Object({ type: Type.String(), text }, closed), {
    maxItems: LIMITS.messages,
    description: 'a list of objects with type and text',
  }),
);
const reasoning = Type.Object(
  {
    type: Type.Literal('reasoning'),
    summary: thoughts,
    content: thoughts,
    encrypted_content: only([''], 'reasoning is not encrypted'),
    ...{ id, status },
  },
  { additionalProperties: false, description: 'an object with content' },
);
const reference = Type.Object(
  { type: Type.Literal('item_reference'), id: Type.String({ maxLength: LIMITS.name, description: 'a text' }) },
  { additionalProperties: false, description: 'an object with id' },
);
const KINDS = {
  function_call: call,
  function_call_output: result,
  reasoning,
  item_reference: reference,
};
const item = Object.entries(KINDS).reduceRight<object>((others, [type, schema]) => byType(type, schema, others), {
  if: { type: 'object', required: ['type'] },
  then: byType(
    'message',
    message,
    ofType("'message', 'function_call', 'function_call_output', 'reasoning' or 'item_reference'", 'message'),
  ),
  else: message,
});
/** What a conversation is made of, as clients send it and as answers say it. */
export type Item = Static<typeof message> | Static<typeof call> | Static<typeof result> | Static<typeof reasoning>;
export type InputItem = Item | Static<typeof reference>;

const tool = Type.Object(
  {
    type: Type.Literal('function'),
    name: NAME,
    description: Type.Optional(text),
    parameters: Type.Optional(Type.Unsafe<object>({ type: 'object', description: 'a JSON schema of an object' })),
    strict: flag,
  },
  { additionalProperties: false, description: 'an object with name and parameters' },
);
const FORMS = ['text', 'json_object'];
const format = Type.Unsafe<
  | { readonly type: 'text' }
  | { readonly type: 'json_object' }
  | { readonly type: 'json_schema'; readonly name: string; readonly schema: object }
>(
  byType(
    'json_schema',
    Type.Object(
      {
        type: Type.Literal('json_schema'),
        name: NAME,
        description: Type.Optional(text),
        schema: Type.Unsafe<object>({ type: 'object', description: 'a JSON schema' }),
        strict: flag,
      },
      { additionalProperties: false, description: 'an object with name and schema' },
    ),
    { ...ofType("'text', 'json_object' or 'json_schema'", ...FORMS), additionalProperties: false },
  ),
);
const CHOICES = ['none', 'auto', 'required'] as const;

/** `POST /v1/responses`. */
export const responsesRequest = Type.Object(
  {
    ...extensions,
    ...sampling,
    model: Type.Optional(modelName),
    input: Type.Optional(
      Type.Unsafe<string | readonly InputItem[]>({
        if: { type: 'array' },
        then: { type: 'array', items: item, maxItems: LIMITS.messages },
        else: { type: 'string', description: 'a text, or a list of items' },
      }),
    ),
    instructions: Type.Optional(text),
    previous_response_id: id,
    max_output_tokens: Type.Optional(count(0, 'a whole number of tokens')),
    tools: Type.Optional(
      Type.Unsafe<readonly Static<typeof tool>[]>({
        type: 'array',
        items: byType('function', tool, ofType("'function', since this server runs no tools of its own", 'function')),
        maxItems: LIMITS.tools,
        description: `up to ${LIMITS.tools} functions`,
      }),
    ),
    tool_choice: Type.Optional(
      Type.Unsafe<(typeof CHOICES)[number] | { readonly name: string }>({
        if: { type: 'object' },
        then: Type.Object(
          { type: Type.Literal('function', { description: "'function'" }), name: NAME },
          { additionalProperties: false, description: 'an object with type and name' },
        ),
        else: { enum: CHOICES, description: "'none', 'auto', 'required' or the function that must be called" },
      }),
    ),
    parallel_tool_calls: flag,
    text: Type.Optional(
      Type.Object(
        {
          format: Type.Optional(format),
          verbosity: only(['medium'], 'the length of answers is bounded by max_output_tokens alone'),
        },
        { additionalProperties: false, description: 'an object with format' },
      ),
    ),
    reasoning: Type.Optional(
      Type.Object(
        {
          effort,
          summary: Type.Optional(Type.Enum(['auto', 'concise', 'detailed'], { description: "'auto'" })),
        },
        { additionalProperties: false, description: 'an object with effort' },
      ),
    ),
    chat_template_kwargs: templateVariables,
    include: Type.Optional(
      Type.Array(Type.String({ maxLength: LIMITS.label }), { maxItems: LIMITS.stops, description: 'a list of names' }),
    ),
    top_logprobs: Type.Optional(count(0, 'a whole number from 0 to 20', 20)),
    stream: flag,
    stream_options: Type.Optional(Type.Object({ include_obfuscation: only([false], 'frames are not padded') }, closed)),
    store: flag,
    ...{ user: label, safety_identifier: label, prompt_cache_key: label, prompt_cache_retention: label },
    metadata: labels,
    background: only([false], 'answers are given while the client waits'),
    truncation: only(['disabled'], 'a policy decides what is kept'),
    service_tier: only(['auto', 'default'], 'there is one tier'),
    max_tool_calls: Type.Optional(count(1, 'a whole number of calls of built-in tools, of which there are none')),
  },
  { additionalProperties: false, description: 'an object' },
);
export type ResponsesRequest = Static<typeof responsesRequest>;

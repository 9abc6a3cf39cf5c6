import Type from 'typebox';
import type { Static } from 'typebox';
import {
  byType,
  closed,
  count,
  effort,
  extensions,
  flag,
  labels,
  LIMITS,
  NAME,
  ofType,
  only,
  sampling,
  templateVariables,
  modelName,
} from '../../protocol/schema.ts';

/** A mark of what may be cached: prefixes and conversations are, wherever they are marked. */
const cache_control = Type.Optional(Type.Unknown());
const text = Type.String({ description: 'a text' });
const textBlock = Type.Object(
  { type: Type.Literal('text'), text, citations: only([[]], 'nothing is cited'), cache_control },
  { additionalProperties: false, description: 'a block with type and text' },
);
type TextBlock = Static<typeof textBlock>;
/** A text, or blocks of text. */
const texts = Type.Unsafe<string | readonly TextBlock[]>({
  if: { type: 'array' },
  then: {
    type: 'array',
    items: byType('text', textBlock, ofType("'text', since the model reads nothing else", 'text')),
    maxItems: LIMITS.messages,
  },
  else: { type: 'string', description: 'a text, or blocks of type text' },
});

const id = Type.String({ maxLength: LIMITS.name, description: 'a text' });
const toolUse = Type.Object(
  {
    type: Type.Literal('tool_use'),
    id,
    name: Type.String({ maxLength: LIMITS.name, description: 'a text' }),
    input: Type.Unsafe<object>({ type: 'object', description: 'an object' }),
    cache_control,
    caller: Type.Optional(Type.Unknown()), // a label of answers
  },
  { additionalProperties: false, description: 'a block with type, id, name and input' },
);
const toolResult = Type.Object(
  { type: Type.Literal('tool_result'), tool_use_id: id, content: Type.Optional(texts), is_error: flag, cache_control },
  { additionalProperties: false, description: 'a block with type, tool_use_id and content' },
);
const thinkingBlock = Type.Object(
  { type: Type.Literal('thinking'), thinking: text, signature: Type.Optional(text), cache_control },
  { additionalProperties: false, description: 'a block with type and thinking' },
);
/** Blocks of messages, by the role that may have them. */
const KINDS = { text: textBlock, tool_use: toolUse, tool_result: toolResult, thinking: thinkingBlock };
const block = Object.entries(KINDS).reduceRight<object>(
  (others, [type, schema]) => byType(type, schema, others),
  ofType("'text', 'tool_use', 'tool_result' or 'thinking', since the model reads nothing else", ...Object.keys(KINDS)),
);
export type Block = TextBlock | Static<typeof toolUse> | Static<typeof toolResult> | Static<typeof thinkingBlock>;

const message = Type.Object(
  {
    role: Type.Enum(['user', 'assistant'], { description: "'user' or 'assistant'" }),
    content: Type.Unsafe<string | readonly Block[]>({
      if: { type: 'array' },
      then: { type: 'array', items: block, maxItems: LIMITS.messages },
      else: { type: 'string', description: 'a text, or blocks' },
    }),
  },
  { additionalProperties: false, description: 'an object with role and content' },
);
export type RequestMessage = Static<typeof message>;

const tool = Type.Object(
  {
    type: Type.Optional(Type.Literal('custom')),
    name: NAME,
    description: Type.Optional(text),
    input_schema: Type.Unsafe<object>({ type: 'object', description: 'a JSON schema of an object' }),
    strict: flag,
    cache_control,
    eager_input_streaming: flag, // arguments are streamed as they come
    input_examples: Type.Optional(Type.Array(Type.Unknown(), { maxItems: 0, description: 'an empty list' })),
  },
  { additionalProperties: false, description: 'an object with name and input_schema' },
);
const CHOICES = { auto: {}, any: {}, none: {}, tool: { name: NAME } };
const choice = Object.entries(CHOICES).reduceRight<object>(
  (others, [type, more]) =>
    byType(
      type,
      Type.Object(
        { type: Type.Literal(type), disable_parallel_tool_use: flag, ...more },
        { additionalProperties: false, description: 'an object with type' },
      ),
      others,
    ),
  ofType("'auto', 'any', 'tool' or 'none'", ...Object.keys(CHOICES)),
);

/** What a conversation is made of: the fields of `/v1/messages/count_tokens`. */
const asked = {
  model: modelName,
  messages: Type.Array(message, {
    minItems: 1,
    maxItems: LIMITS.messages,
    description: `from 1 to ${LIMITS.messages} messages`,
  }),
  system: Type.Optional(texts),
  tools: Type.Optional(
    Type.Unsafe<readonly Static<typeof tool>[]>({
      type: 'array',
      items: {
        if: { type: 'object', required: ['type'] },
        then: byType('custom', tool, ofType("'custom', since this server runs no tools of its own", 'custom')),
        else: tool,
      },
      maxItems: LIMITS.tools,
      description: `up to ${LIMITS.tools} functions`,
    }),
  ),
  tool_choice: Type.Optional(
    Type.Unsafe<{
      readonly type: keyof typeof CHOICES;
      readonly name?: string;
      readonly disable_parallel_tool_use?: boolean;
    }>(choice),
  ),
  thinking: Type.Optional(
    Type.Object(
      {
        type: Type.Enum(['enabled', 'disabled', 'adaptive'], { description: "'enabled', 'adaptive' or 'disabled'" }),
        budget_tokens: Type.Optional(count(0, 'a whole number of tokens')),
        display: only(['summarized'], 'thinking is shown as it is'),
      },
      { additionalProperties: false, description: 'an object with type' },
    ),
  ),
  output_config: Type.Optional(
    Type.Object(
      {
        format: Type.Optional(
          Type.Object(
            {
              type: Type.Literal('json_schema', { description: "'json_schema'" }),
              schema: Type.Unsafe<object>({ type: 'object', description: 'a JSON schema' }),
            },
            closed,
          ),
        ),
        effort,
      },
      { additionalProperties: false, description: 'an object with format' },
    ),
  ),
  chat_template_kwargs: templateVariables,
  cache_control,
  context_management: Type.Optional(
    Type.Object({}, { additionalProperties: false, description: 'an empty object: a policy decides what is kept' }),
  ),
  mcp_servers: only([[]], 'this server runs no tools of its own'),
} as const;

const { top_k, top_p, temperature, seed, min_p, repetition_penalty, frequency_penalty, presence_penalty } = sampling;

/** `POST /v1/messages`. */
export const messagesRequest = Type.Object(
  {
    ...asked,
    ...extensions,
    ...{ temperature, top_p, top_k, min_p, seed, repetition_penalty, frequency_penalty, presence_penalty },
    max_tokens: count(1, 'a whole number of tokens of at least 1'),
    stop_sequences: Type.Optional(
      Type.Array(Type.String({ maxLength: LIMITS.stop }), {
        maxItems: LIMITS.stops,
        description: `up to ${LIMITS.stops} texts of at most ${LIMITS.stop} characters`,
      }),
    ),
    stream: flag,
    metadata: labels,
    service_tier: only(['auto', 'standard_only'], 'there is one tier'),
    inference_geo: only(['not_available'], 'the model runs here'),
  },
  { additionalProperties: false, description: 'an object' },
);

/** `POST /v1/messages/count_tokens`. */
export const countRequest = Type.Object(asked, { additionalProperties: false, description: 'an object' });

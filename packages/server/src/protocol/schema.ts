import Type from 'typebox';
import type { Static } from 'typebox';

/** Longest texts and lists of a request. */
const LIMITS = { name: 200, stops: 16, stop: 200, prompts: 128, choices: 128, policy: 4096, messages: 4096 } as const;

const nullOr = 'or left out';
const count = (least: number, description: string, maximum = 2 ** 31 - 1) =>
  Type.Integer({ minimum: least, maximum, description });

/** Fields that both kinds of request have; `description` is what a refusal expects. */
const common = {
  model: Type.Optional(
    Type.String({ maxLength: LIMITS.name, description: 'the name of a model that /v1/models lists' }),
  ),
  n: Type.Optional(count(1, `a whole number of choices from 1 to ${LIMITS.choices}`, LIMITS.choices)),
  stop: Type.Optional(
    Type.Union(
      [
        Type.String({ maxLength: LIMITS.stop }),
        Type.Array(Type.String({ maxLength: LIMITS.stop }), { maxItems: LIMITS.stops }),
      ],
      { description: `a text, or up to ${LIMITS.stops} of them, of at most ${LIMITS.stop} characters` },
    ),
  ),
  seed: Type.Optional(
    Type.Integer({
      minimum: -Number.MAX_SAFE_INTEGER,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'a whole number',
    }),
  ),
  temperature: Type.Optional(Type.Number({ minimum: 0, maximum: 2, description: 'a number from 0 to 2' })),
  top_p: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1, description: 'a number above 0 and at most 1' })),
  max_tokens: Type.Optional(count(0, 'a whole number of tokens')),
  stream: Type.Optional(Type.Boolean({ description: 'true or false' })),
  stream_options: Type.Optional(
    Type.Object(
      { include_usage: Type.Optional(Type.Boolean({ description: 'true or false' })) },
      { additionalProperties: false, description: 'an object with include_usage' },
    ),
  ),
  user: Type.Optional(Type.String({ maxLength: LIMITS.name, description: `a text ${nullOr}` })),
  frequency_penalty: Type.Optional(Type.Literal(0, { description: '0, since penalties are not supported' })),
  presence_penalty: Type.Optional(Type.Literal(0, { description: '0, since penalties are not supported' })),
  policy: Type.Optional(
    Type.String({ maxLength: LIMITS.policy, description: 'pieces of the catalogue such as snapkv(window=16)' }),
  ),
  budget: Type.Optional(
    Type.Union([count(1, 'slots'), Type.String({ pattern: '^\\d{1,3}(\\.\\d{1,6})?%$' })], {
      description: "a whole number of slots, or a share of the prompt such as '25%'",
    }),
  ),
  block: Type.Optional(count(1, 'a positive whole number of tokens')),
  cadence: Type.Optional(count(1, 'a positive whole number of tokens')),
};
const closed = { additionalProperties: false, description: 'an object' };

const ids = Type.Array(count(0, 'a token id'), { minItems: 1, description: 'token ids' });

/** `POST /v1/completions`. */
export const completionRequest = Type.Object(
  {
    ...common,
    prompt: Type.Union(
      [
        Type.String(),
        Type.Array(Type.String(), { minItems: 1, maxItems: LIMITS.prompts }),
        ids,
        Type.Array(ids, { minItems: 1, maxItems: LIMITS.prompts }),
      ],
      { description: `a text, token ids, or up to ${LIMITS.prompts} of either` },
    ),
    echo: Type.Optional(Type.Boolean({ description: 'true or false' })),
    logprobs: Type.Optional(count(0, 'a whole number from 0 to 20', 20)),
    best_of: Type.Optional(Type.Literal(1, { description: '1, since no choices are thrown away' })),
  },
  closed,
);
export type CompletionRequest = Static<typeof completionRequest>;

const textPart = Type.Object(
  { type: Type.Literal('text'), text: Type.String({ description: 'a text' }) },
  { additionalProperties: false, description: 'an object with type and text' },
);
/** What a part is decides what else it must have, so that an image is refused for its type. */
const ofType = (type: object): object => ({ type: 'object', properties: { type }, required: ['type'] });
const part = {
  if: ofType({ const: 'text' }),
  then: textPart,
  else: ofType({ const: 'text', description: "'text', since the model reads nothing else" }),
};
const message = Type.Object(
  {
    role: Type.Enum(['system', 'developer', 'user', 'assistant'], {
      description: "'system', 'developer', 'user' or 'assistant'",
    }),
    content: Type.Unsafe<string | readonly Static<typeof textPart>[]>({
      if: { type: 'array' },
      then: { type: 'array', items: part, maxItems: LIMITS.messages, description: 'parts of type text' },
      else: { type: 'string', description: 'a text, or parts of type text' },
    }),
    name: Type.Optional(Type.String({ maxLength: LIMITS.name, description: 'a text' })),
  },
  { additionalProperties: false, description: 'an object with role and content' },
);

/** `POST /v1/chat/completions`. */
export const chatRequest = Type.Object(
  {
    ...common,
    messages: Type.Array(message, {
      minItems: 1,
      maxItems: LIMITS.messages,
      description: `from 1 to ${LIMITS.messages} messages`,
    }),
    max_completion_tokens: Type.Optional(count(0, 'a whole number of tokens')),
    logprobs: Type.Optional(Type.Boolean({ description: 'true or false' })),
    top_logprobs: Type.Optional(count(0, 'a whole number from 0 to 20', 20)),
    response_format: Type.Optional(
      Type.Object(
        { type: Type.Literal('text', { description: "'text', since answers are not constrained" }) },
        { additionalProperties: false, description: "{ type: 'text' }" },
      ),
    ),
  },
  closed,
);
export type ChatRequest = Static<typeof chatRequest>;
/** What both have. */
export type CommonRequest = Omit<ChatRequest & CompletionRequest, 'messages' | 'prompt' | 'logprobs'>;

/** What of ajv's errors names a field and what it must be. */
export interface SchemaError {
  readonly instancePath: string;
  readonly keyword: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly parentSchema?: { readonly description?: string };
  readonly data?: unknown;
}

/** `/messages/0/content` as `messages[0].content`. */
const fieldOf = (path: string): string =>
  path
    .slice(1)
    .replace(/\/(\d+)/g, '[$1]')
    .replaceAll('/', '.');

/** The field that a request gets wrong, and a sentence about it. */
export function schemaRefusal(errors: readonly SchemaError[]): { readonly param: string; readonly message: string } {
  // A union ends in an error of its own, behind those of its members.
  const error = errors.find(({ keyword }) => keyword === 'additionalProperties') ?? errors.at(-1)!; // there is one
  const { instancePath, keyword, params, parentSchema, data } = error,
    inside = (name: unknown): string => [fieldOf(instancePath), String(name)].filter((x) => x !== '').join('.');
  if (keyword === 'additionalProperties') {
    const param = inside(params.additionalProperty);
    return { param, message: `'${param}' is not supported` };
  }
  if (keyword === 'required') {
    const param = inside(params.missingProperty);
    return { param, message: `'${param}' is expected, got none` };
  }
  const param = fieldOf(instancePath) || 'body',
    got = JSON.stringify(data) ?? 'nothing';
  return {
    param,
    message: `'${param}' must be ${parentSchema?.description ?? 'another value'}, got ${got.length > 80 ? `${got.slice(0, 80)}…` : got}`,
  };
}

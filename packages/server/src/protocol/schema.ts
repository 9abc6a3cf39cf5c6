import Type from 'typebox';
import type { Static } from 'typebox';
import type { Option } from '@kv/core';
import { didYouMean, formNames } from '@kv/core/engine';
import { schemas } from '@kv/engine';
import { promptRoles } from '@kv/models';
import type { LogitBias, ProtectedPart } from '@kv/models';
import { POLICY } from '../options.ts';

const { SAMPLING } = schemas;

/** Longest texts and lists of a request. */
export const LIMITS = {
  ...{ name: 200, label: 512, stops: 16, stop: 200, prompts: 128, choices: 128, policy: 4096, messages: 4096 },
  ...{ calls: 128, tools: 128, labels: 1024, protected: 64, text: 4096 },
} as const;

export const count = (least: number, description: string, maximum = 2 ** 31 - 1) =>
  Type.Integer({ minimum: least, maximum, description });
export const flag = Type.Optional(Type.Boolean({ description: 'true or false' }));

/** A field that labels a request for the client and does not affect the answer. */
export const label = Type.Optional(Type.String({ maxLength: LIMITS.label, description: 'a text' }));

/** The name of a model. */
export const modelName = Type.String({
  maxLength: LIMITS.name,
  description: 'the name of a model that /v1/models lists',
});

/** How much an answer is to think first. */
const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
export const effort = Type.Optional(
  Type.Enum([...EFFORTS], { description: `one of ${EFFORTS.map((each) => `'${each}'`).join(', ')}` }),
);

/** Values of variables of the chat template. */
export const templateVariables = Type.Optional(
  Type.Unsafe<Readonly<Record<string, unknown>>>({
    type: 'object',
    description: 'an object of variables of the chat template',
    maxProperties: LIMITS.labels,
  }),
);

/** Labels by name. */
export const labels = Type.Optional(
  Type.Object({}, { additionalProperties: true, description: 'an object', maxProperties: LIMITS.labels }),
);

/** An unsupported field, accepted only with these values, which ask for nothing. */
export const only = (values: readonly unknown[], since: string) =>
  Type.Optional(
    Type.Unsafe<unknown>({
      enum: values,
      description: `${values.map((value) => JSON.stringify(value)).join(' or ')}, since ${since}`,
    }),
  );

/** The schema of a library option. */
const field = <T>({ form }: Option<T>) =>
  Type.Optional(
    Type.Unsafe<NonNullable<T>>(
      form.sort === 'number'
        ? {
            type: form.whole ? 'integer' : 'number',
            minimum: form.least,
            maximum: Math.min(form.most, 2 ** 31 - 1),
            description: form.want,
          }
        : {
            anyOf: [
              { type: 'integer', minimum: 1, maximum: 2 ** 31 - 1 },
              { type: 'string', pattern: BUDGET },
              {
                type: 'object',
                properties: { bytes: { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER } },
                required: ['bytes'],
                additionalProperties: false,
              },
            ],
            description: form.want,
          },
    ),
  );
/** Texts that are a share or bytes; `parseBudget` says which of them are in range. */
const BUDGET = `^(\\d{1,3}(\\.\\d{1,6})?%( of (${formNames.join('|')}))?|\\d{1,16}(\\.\\d{1,6})?(B|KiB|MiB|GiB))$`;

/** Fields of both kinds of request that are accepted only with values that ask for nothing. */
const neutral = {
  user: label,
  safety_identifier: label,
  prompt_cache_key: label,
  metadata: labels,
  store: only([false], 'answers are not stored'),
  service_tier: only(['auto', 'default'], 'there is one tier'),
  functions: only([[]], 'functions are given as tools'),
  function_call: only(['none', 'auto'], 'functions are given as tools'),
  modalities: only([['text']], 'answers are text'),
  verbosity: only(['medium'], 'the length of answers is bounded by max_tokens alone'),
  cache_prompt: only([true], 'prefixes are reused wherever that changes nothing'),
} as const;

/** Fields that say how tokens are drawn, in the ranges of the library's options or, where it has some, of OpenAI. */
export const sampling = {
  temperature: Type.Optional(Type.Number({ minimum: 0, maximum: 2, description: 'a number from 0 to 2' })),
  top_k: Type.Optional(count(-1, 'a whole number of tokens, 0 or -1 for all')),
  top_p: Type.Optional(Type.Number({ minimum: 0, maximum: 1, description: 'a number from 0 to 1' })),
  min_p: field(SAMPLING.minP),
  repetition_penalty: field(SAMPLING.repetitionPenalty),
  repeat_penalty: field(SAMPLING.repetitionPenalty),
  frequency_penalty: field(SAMPLING.frequencyPenalty),
  presence_penalty: field(SAMPLING.presencePenalty),
  logit_bias: Type.Optional(
    Type.Unsafe<LogitBias>({
      type: 'object',
      propertyNames: { pattern: '^(0|[1-9]\\d{0,8})$' },
      additionalProperties: { type: 'number', minimum: -100, maximum: 100, description: 'a number from -100 to 100' },
      maxProperties: LIMITS.labels,
      description: `an object of up to ${LIMITS.labels} token ids with numbers from -100 to 100`,
    }),
  ),
  seed: Type.Optional(
    Type.Integer({
      minimum: -Number.MAX_SAFE_INTEGER,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'a whole number',
    }),
  ),
};
export const closed = { additionalProperties: false, description: 'an object' };

/** An object of this type; a refusal of another type quotes the description. */
export const ofType = (description: string, ...types: readonly string[]) => ({
  type: 'object',
  properties: { type: { enum: types, description } },
  required: ['type'],
  description: 'an object with type',
});
/** Validates an object by its type: one of `type` by `then`, others by `otherwise`. */
export const byType = (type: string, then: object, otherwise: object) => ({
  if: ofType('', type),
  then,
  else: otherwise,
});

/** A name of a function or of a schema. */
export const NAME = Type.String({
  pattern: '^[a-zA-Z0-9_-]{1,64}$',
  description: 'a name of at most 64 letters, digits, _ and -',
});

const protectedText = Type.String({ minLength: 1, maxLength: LIMITS.text, description: 'a text' });
/** What no eviction may drop. */
const protectedPart = Type.Unsafe<ProtectedPart>({
  anyOf: [
    protectedText,
    Type.Object({ text: protectedText }, closed),
    { type: 'array', items: { type: 'integer', minimum: 0, maximum: 2 ** 31 - 1 }, minItems: 2, maxItems: 2 },
  ],
  description: `${promptRoles.map((role) => `'${role}'`).join(', ')}, a text of at most ${LIMITS.text} characters, { text }, or a range [from, to] of positions`,
});

/** Fields of this server, of every protocol. */
export const extensions = {
  policy: Type.Optional(
    Type.String({ maxLength: LIMITS.policy, description: 'pieces of the catalogue such as outstandingSentences' }),
  ),
  budget: field(POLICY.budget),
  block: field(POLICY.block),
  every: field(POLICY.every),
  kv: Type.Optional(
    Type.Object(
      {
        protect: Type.Optional(
          Type.Array(protectedPart, {
            maxItems: LIMITS.protected,
            description: `up to ${LIMITS.protected} of ${promptRoles.map((role) => `'${role}'`).join(', ')}, texts, { text } and ranges [from, to] of positions`,
          }),
        ),
      },
      { additionalProperties: false, description: 'an object with protect' },
    ),
  ),
};

/** Fields of both kinds of request; a refusal quotes their `description`. */
export const common = {
  ...neutral,
  ...sampling,
  model: Type.Optional(modelName),
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
  max_tokens: Type.Optional(count(0, 'a whole number of tokens')),
  stream: flag,
  stream_options: Type.Optional(
    Type.Object(
      { include_usage: flag, include_obfuscation: only([false], 'frames are not padded') },
      { additionalProperties: false, description: 'an object with include_usage' },
    ),
  ),
  ...extensions,
};

/** Fields that requests of both kinds have. */
export type CommonRequest = Static<typeof commonRequest>;
const commonRequest = Type.Object(common);

/** The accepted values of unsupported fields, by name; `null` is accepted for every field. For tests and documents. */
export const NEUTRAL: Readonly<Record<string, readonly unknown[]>> = Object.fromEntries(
  Object.entries(neutral).flatMap(([name, schema]) => ('enum' in schema ? [[name, schema.enum as unknown[]]] : [])),
);

/** The parts of an ajv error that name a field and what it must be. */
export interface SchemaError {
  readonly instancePath: string;
  readonly keyword: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly parentSchema?: { readonly description?: string; readonly properties?: object };
  readonly data?: unknown;
}

/** Returns a value as JSON, long strings and lists cut. */
const shown = (value: unknown): string =>
  JSON.stringify(value, (_, each: unknown) =>
    typeof each === 'string' || Array.isArray(each) ? each.slice(0, 100) : each,
  ) ?? 'nothing';

/** `/messages/0/content` as `messages[0].content`. */
const fieldOf = (path: string): string =>
  path
    .slice(1)
    .replace(/\/(\d+)/g, '[$1]')
    .replaceAll('/', '.');

/** Objects in which clients mistakenly nest the extension fields. */
const CARRIERS: readonly string[] = ['kv', 'extra_body'];

/** Returns the invalid field and a sentence about it. */
export function schemaRefusal(errors: readonly SchemaError[]): { readonly param: string; readonly message: string } {
  // The error of a union follows those of its members.
  const error = errors.find(({ keyword }) => keyword === 'additionalProperties') ?? errors.at(-1)!; // there is one
  const { instancePath, keyword, params, parentSchema, data } = error,
    inside = (name: unknown): string => [fieldOf(instancePath), String(name)].filter((x) => x !== '').join('.');
  if (keyword === 'additionalProperties') {
    const param = inside(params.additionalProperty),
      hint = CARRIERS.some((carrier) => param === carrier || param.startsWith(`${carrier}.`))
        ? `: '${Object.keys(POLICY).join("', '")}' are fields of the request itself`
        : didYouMean(String(params.additionalProperty), Object.keys(parentSchema?.properties ?? {}));
    return { param, message: `'${param}' is not supported${hint}` };
  }
  if (keyword === 'required') {
    const param = inside(params.missingProperty);
    return { param, message: `'${param}' is expected, got none` };
  }
  const param = fieldOf(instancePath) || 'body',
    got = shown(data);
  return {
    param,
    message: `'${param}' must be ${parentSchema?.description ?? 'another value'}, got ${got.length > 80 ? `${got.slice(0, 80)}…` : got}`,
  };
}

import { callback, count, flag, maybe, number, object, required, text, value, whole } from '@kv/core';
import type { OptionValues, Option, Registry } from '@kv/core';
import { schemas } from '@kv/engine';
import type { Model } from '@kv/models';
import type { DestinationStream } from 'pino';
import type { ConversationStore } from './run/conversation-store.ts';

const { CACHE, CHAT_TEMPLATE_KWARGS, GENERATE, PROTECT_ALWAYS, SAMPLING } = schemas;
const bytes = (fallback: number, says: string): Option<number> =>
  number(fallback, says, {
    least: 1,
    most: Number.MAX_SAFE_INTEGER,
    whole: true,
    of: 'bytes',
    want: 'a positive whole number of bytes',
  });

/** Options that limit requests and slow readers. */
export const LIMITS = {
  bodyBytes: bytes(4 * 2 ** 20, 'Bytes of a body.'),
  headerBytes: bytes(16 * 2 ** 10, 'Bytes of all headers.'),
  queue: whole(64, 'prompts', 'Prompts that may wait; more get 429.'),
  running: count(32, 'answers', 'Answers that are generated at once.', { most: 1024 }),
  part: count(128, 'tokens', 'Tokens of a prompt that pass between two steps of the others.'),
  maxNewTokens: maybe(count(1, 'tokens', 'The longest answer.'), "the model's context"),
  maxPromptTokens: maybe(
    count(1, 'tokens', 'The longest prompt under a policy with a block; others fit the context.'),
    '4 contexts',
  ),
  ahead: count(256, 'events', 'Events that a reader may be late by before its answer waits for it.'),
  readerMs: whole(30_000, 'milliseconds', 'How long an answer waits for its reader.'),
  receiveMs: whole(30_000, 'milliseconds', 'In which a request must have come.'),
  requestMs: whole(600_000, 'milliseconds', 'The longest request in all.'),
};
/** Options of a folder of conversations. */
export const CONVERSATIONS = {
  folder: required(
    text(
      '',
      'a folder',
      'Where conversations are written after each answer: their caches, and the texts of stored responses, both in clear and for this user alone.',
    ),
  ),
  bytes: bytes(2 ** 32, 'Bytes of all its files; those used least recently are deleted.'),
  hours: number(168, 'How long a file stays that is not used.', { above: 0, of: 'hours' }),
};
/** A folder of conversations. */
export interface ConversationsFolder extends OptionValues<typeof CONVERSATIONS> {}

/** Limits of requests and readers. */
export interface Limits extends OptionValues<typeof LIMITS> {}

/** The policy options, which are also fields of a request. */
export const POLICY = {
  policy: GENERATE.policy,
  budget: GENERATE.budget,
  block: GENERATE.block,
  every: GENERATE.every,
};

const unlessAsked = <T>(option: Option<T>, otherwise?: string): Option<T | undefined> =>
  maybe({ ...option, says: `${option.says.slice(0, -1)}, unless a request says otherwise.` }, otherwise);
/** The defaults of sampling, which are also fields of a request. */
export const DRAWS = {
  temperature: unlessAsked(SAMPLING.temperature, '1'),
  topK: unlessAsked(SAMPLING.topK, '0'),
  topP: unlessAsked(SAMPLING.topP, '1'),
  minP: unlessAsked(SAMPLING.minP, '0'),
  repetitionPenalty: unlessAsked(SAMPLING.repetitionPenalty, '1'),
  frequencyPenalty: unlessAsked(SAMPLING.frequencyPenalty, '0'),
  presencePenalty: unlessAsked(SAMPLING.presencePenalty, '0'),
  logitBias: unlessAsked(SAMPLING.logitBias, 'no biases'),
};

/** Options of `createServer`. */
export const SERVER = {
  model: required(object<Model>('a loaded model', 'What answers.')),
  name: required(text('', 'a name', 'What /v1/models calls it.')),
  memory: required(
    bytes(2 ** 31, 'Bytes of all caches, conversations, scratch and requests; weights are not counted.'),
  ),
  ...POLICY,
  ...DRAWS,
  cache: { ...CACHE, otherwise: "the model's" },
  chatTemplateKwargs: {
    ...CHAT_TEMPLATE_KWARGS,
    says: "Values of variables that the model's chat template reads, such as enable_thinking=false, unless a request's chat_template_kwargs say otherwise.",
  },
  protect: {
    ...PROTECT_ALWAYS,
    says: `${PROTECT_ALWAYS.says.slice(0, -1)}. A request names more in kv: { protect }.`,
  },
  fixedPolicy: flag(false, `Refuse requests that ask for another ${Object.keys(POLICY).join(', ')}.`),
  registry: required(object<Registry>('a registry such as `catalogue`', 'What policies of requests may name.')),
  conversations: {
    ...object<ConversationsFolder | ConversationStore>(
      'a folder with its bounds, or a store with get, put and delete',
      'Where conversations go on from when memory had no room for them, or the server was started again.',
    ),
    otherwise: 'they are read again',
  },
  keys: {
    ...value('keys', 'Of which every request must bring one.', (x): x is readonly string[] => Array.isArray(x)),
    otherwise: 'only loopback is listened on',
  },
  log: { ...object<DestinationStream>('a stream', 'Where log lines go.'), otherwise: 'standard output' },
  redact: callback<(text: string) => string>(
    'What log lines show of a text, such as `redact` of `@kv/scorers-sponsorship`.',
    'all of it',
  ),
  limits: object<Limits>('limits', 'What bounds a request and a reader.'),
};
/** Options of `createServer`. */
export interface ServerOptions extends OptionValues<typeof SERVER> {}

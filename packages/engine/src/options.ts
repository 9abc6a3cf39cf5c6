import { count, flag, maybe, number, object, oneOf, required, text, texts, value, whole } from '@kv/core';
import { budgetOption, formNames, policyOption } from '@kv/core/engine';
import type { Backend, Option, OptionValues, Policy } from '@kv/core';
import type { CacheForm } from './cache/form.ts';
import { PROTECT } from './generate/protect.ts';
import type { HostEngine } from './host/decoder.ts';
import type { Observer } from './memory/observer.ts';
import { misreadVariables, readVariables, type ConversationMessage, type TemplateVariables } from '@kv/checkpoints';
import type { Grammar } from './generate/constraint.ts';
import { SAMPLING } from './sampling/options.ts';
import type { SequenceStart } from './sequence/start.ts';

export { SAMPLING };

const isMessages = (x: unknown): x is readonly ConversationMessage[] =>
  Array.isArray(x) && x.length > 0 && x.every(isMessage);
/** Content may be missing in a message of tool calls; its parts are checked where they are joined. */
const isMessage = (x: unknown): boolean => {
  const { role, content, tool_calls: calls } = Object(x) as Record<string, unknown>;
  return typeof role === 'string' && (typeof content === 'string' || Array.isArray(content) || Array.isArray(calls));
};
const isSchema = (x: unknown): x is object | boolean =>
  typeof x === 'boolean' || (typeof x === 'object' && x !== null && !Array.isArray(x));
const isList = (x: unknown): x is readonly number[] => Array.isArray(x);

const budget = budgetOption(
  'What evictions leave: slots per layer and KV head, a share of the prompt such as 25% (25% of f16: of its bytes in that form), or bytes of the whole cache such as 64MiB.',
  'nothing is evicted',
);
const block = maybe(
  count(1, 'tokens', 'Prefill in blocks of this many tokens, each followed by an eviction.'),
  "the policy's, else the whole prompt",
);
const signal = object<AbortSignal>('an AbortSignal', 'Ends it early.');
const backend = object<Backend>(
  'a backend',
  'Backend that runs pieces when the cache is on the host.',
  'where the model keeps caches, else the CPU',
);

/** Variables of the chat template, by the name that other servers give them. */
export const CHAT_TEMPLATE_KWARGS: Option<TemplateVariables | undefined> = {
  default: undefined,
  says: "Values of variables that the model's chat template reads, such as enable_thinking=false, or an object of JSON.",
  otherwise: 'the template finds none',
  form: {
    sort: 'text',
    of: 'json',
    want: 'variables of a chat template, such as enable_thinking=false or {"enable_thinking":false}',
    read: readVariables,
    misread: misreadVariables,
  },
};

/** How a cache is stored. */
export const CACHE: Option<CacheForm | undefined> = maybe(
  oneOf(
    formNames,
    'f32',
    'How keys and values are stored: f32, f16, q8 (8 bits), k8v4 (keys of 8 bits, values of 4) or q4 (4 bits).',
  ),
  "the engine's choice: q8 where it multiplies stored weights, else f32",
);

/** Options of decoding. */
export const DECODE = {
  maxNewTokens: whole(64, 'tokens', 'The longest answer.'),
  stop: texts('End the answer before this text.'),
  signal,
  ...SAMPLING,
  grammar: maybe(
    value<Grammar>(
      'a grammar, as answerGrammar makes it',
      'What the answer must be like: bans the tokens that may not come next.',
      (x): x is Grammar => typeof Object(x).begin === 'function',
    ),
    'every token may come',
  ),
  stopAtEos: maybe(
    flag(true, "End at the model's end token."),
    'true for a text, false for ids: ids in, exactly as many ids out',
  ),
  turn: maybe(
    flag(
      false,
      "The prompt is in the words of the model's chat template: reasoning and channels of the answer are apart from its text, of which a schema is.",
    ),
    'true for `messages`',
  ),
  every: maybe(
    count(1, 'tokens', 'Evict again after this many generated tokens.'),
    "the policy's cadence, else it evicts once, at the end of the prompt",
  ),
  inFlight: maybe(
    count(
      2,
      'steps',
      'Steps in flight at once on a device: the next one starts before the id of the last is read, unless an event follows it or the policy looks at every token. What ran past the end is rolled back.',
    ),
    '2, and 1 where logits are asked for',
  ),
  remember: maybe(
    flag(false, 'Keep what events read of the past, since one follows this generation.'),
    'false without `every`',
  ),
};
/** Options of `decode`. */
export interface DecodeOptions extends OptionValues<typeof DECODE> {}

/** Options of `generate`. */
export const GENERATE = {
  prompt: maybe(text('', 'text', 'Text to go on from; or `ids`.')),
  messages: value<readonly ConversationMessage[]>(
    'at least one { role, content }, both texts, or content in parts { type, text }',
    "A conversation to answer, in the model's chat template: `{ role, content }` each, calls of functions and their results as OpenAI has them; or `prompt`.",
    isMessages,
  ),
  chatTemplateKwargs: CHAT_TEMPLATE_KWARGS,
  ids: value('token ids', 'Token ids to go on from; or `prompt`.', isList),
  policy: policyOption(
    'What keeps the cache at its budget: a name, a text such as streaming(sinks=4), or pieces.',
    'nothing is evicted',
  ),
  budget,
  decodePolicy: policyOption(
    'Another policy while tokens are generated; one that evicts wants `every`, or a cadence of its own.',
    '`policy`',
  ),
  decodeBudget: budgetOption(
    'What evictions leave while tokens are generated, as `budget`; a share is of all tokens so far.',
    'the slots or bytes of `budget`',
  ),
  protect: PROTECT,
  block,
  schema: value(
    'a JSON schema',
    'The answer is JSON that fits this schema, or its beginning where `maxNewTokens` or a stop text ends it; or `grammar`.',
    isSchema,
  ),
  logits: whole(
    0,
    'rows',
    'Give the logits of this many last positions of prompt and answer, the last generated token fed too.',
  ),
  certify: object<Observer>(
    'an observer',
    "Is shown what every eviction drops and every view hides; its conclusion is `report.certificates`. Costs the newest query's attention once more each time.",
  ),
  backend,
  cache: { ...CACHE, otherwise: "the model's" },
  ...DECODE,
};
/** Options of `generate`. */
export interface GenerateOptions extends OptionValues<typeof GENERATE> {}

/** Options of `Sequence.prefill`. */
export const PREFILL = {
  policy: policyOption(
    "Evicts to the budget layer by layer as the prompt passes, where the policy's reach allows it; without a budget, what it reads is remembered.",
    'nothing is evicted',
  ),
  budget,
  block,
  policies: value(
    'policies or their texts',
    'What this sequence, or a fork of it, goes by later: what they read is remembered.',
    (x): x is readonly (Policy | string)[] => Array.isArray(x),
  ),
  rows: whole(1, 'rows', 'Last rows whose logits are kept.'),
  forget: flag(false, 'No policy runs after the prompt: observations that only events read are freed layer by layer.'),
  signal,
};
/** Options of `Sequence.prefill`. */
export interface PrefillOptions extends OptionValues<typeof PREFILL> {}

/** Options of `Sequence.append`. */
export const APPEND = { rows: PREFILL.rows };

/** Options of `Sequence.prefillParts`. */
export const PREFILL_PARTS = {
  ...PREFILL,
  part: maybe(
    count(
      1,
      'tokens',
      'Tokens that pass at once, with no event between them. Policies that read sums over the newest block take whole blocks.',
    ),
    'those of a block',
  ),
};
/** Options of `Sequence.prefillParts`. */
export interface PrefillPartsOptions extends OptionValues<typeof PREFILL_PARTS> {}

/** Options of a sequence. */
export const SEQUENCE = {
  window: maybe(
    count(
      1,
      'tokens',
      'Rotary positions to use. A longer sequence goes on as long as its kept slots fit: they are moved together.',
    ),
    "the model's `maxPositions`",
  ),
  cache: { ...CACHE, otherwise: "the model's" },
  mostOperations: maybe(number(0, 'Most operations of a piece at once, on the host.', { above: 0 }), 'no limit'),
  snapshots: whole(
    0,
    'snapshots',
    "Snapshots to hold, where layers carry states, at the ends of a prompt's parts: copies of fewer tokens start at these.",
  ),
  start: object<SequenceStart>('a start', 'What a copy or a loaded sequence starts with.', 'an empty sequence'),
};

/** The options of `hostRuntime`, declared. */
export const HOST = { engine: required(object<HostEngine>('an engine', 'What runs programs.')), backend };
/** Options of `hostRuntime`. */
export interface HostOptions extends OptionValues<typeof HOST> {}

type Found = Policy | string | ((label: string) => Policy | string | Promise<Policy | string>);
/** Options of `loadCache`. */
export const LOAD_CACHE = {
  policy: policyOption<Found>(
    'Goes on to evict the sequence: a policy, its text, or a function that finds it by the label of the one that it had, and is not called if it had none.',
    'nothing is evicted any more',
  ),
  budget: { ...budget, otherwise: 'the budget that the sequence had' },
  backend,
  cache: { ...CACHE, otherwise: 'the form that it was saved in, where the engine has it' },
  window: { ...SEQUENCE.window, otherwise: 'the window that the sequence had' },
  mostOperations: SEQUENCE.mostOperations,
};

/** Options of `createPrefixStore`. */
export const PREFIX_STORE = {
  maxBytes: required(
    number(0, 'Bytes of caches that may be kept; the one used least recently goes first.', {
      least: 0,
      whole: true,
      most: Number.MAX_SAFE_INTEGER,
      of: 'bytes',
      want: 'a whole number of bytes',
    }),
  ),
  policy: policyOption<Policy>(
    'Compacts what is added, at its end.',
    'whole caches, which may be shared up to any token',
    'a policy',
  ),
  budget: { ...budget, otherwise: 'none; a policy that evicts needs one' },
  block,
  backend,
  cache: { ...CACHE, otherwise: "the model's" },
  mostOperations: SEQUENCE.mostOperations,
};

/** One token, or, at the end, text that was held back for a stop string. The text is final and may be empty. */
export interface Chunk {
  /** The generated id; absent for text that was held back. */
  readonly token?: number;
  /** Text that is certain now. */
  readonly text: string;
  /** Reasoning of the model that is certain now, where it is apart from the text (`turn`). */
  readonly reasoning?: string;
}
/**
 * Why a generation ended: at `maxNewTokens`, before a stop text, at the model's end token or where its grammar allows
 * nothing else, by its signal, or because the next token would pass the model's context.
 */
export type Finish = 'length' | 'stop' | 'eos' | 'aborted' | 'context';

import { callback, count, maybe, object, text, whole } from '@kv/core';
import { policyOption } from '@kv/core/engine';
import type { OptionValues } from '@kv/core';
import { PROTECT } from '../generate/protect.ts';
import { CACHE, CHAT_TEMPLATE_KWARGS, DECODE, GENERATE, SAMPLING } from '../options.ts';
import type { Sequence } from '../sequence/sequence.ts';

/** The options of `Chat`, declared. */
export const CHAT = {
  system: maybe(text('', 'a text', 'What stands before the first message.')),
  chatTemplateKwargs: CHAT_TEMPLATE_KWARGS,
  policy: policyOption(
    'What keeps the cache at its budget: a name, a text such as streaming(sinks=4), or pieces.',
    'nothing is evicted, and the conversation ends with the context',
  ),
  budget: {
    ...GENERATE.budget,
    says: "Slots per layer and KV head, a share of the model's context such as 25%, or bytes such as 64MiB; with a policy.",
  },
  protect: {
    ...PROTECT,
    says: "What no eviction may drop: 'system' or 'first-user', texts wherever they stand in messages, or ranges [from, to) of positions; it counts within the budget.",
  },
  block: maybe(
    count(1, 'tokens', 'Read a long message in blocks of this many tokens, each followed by an eviction.'),
    'what fits the context, at most 512',
  ),
  every: maybe(
    count(1, 'tokens', 'Evict after this many generated tokens too, not only after each answer.'),
    'only where a long answer needs the room',
  ),
  cache: { ...CACHE, otherwise: "the model's; a `sequence` keeps its own" },
  maxNewTokens: whole(256, 'tokens', 'The longest answer.'),
  ...SAMPLING,
  sequence: object<Sequence>(
    'a sequence',
    'A conversation of this model to go on from, as `loadCache` returns it: under its policy and budget, unless others are given.',
    'an empty one',
  ),
};
/** Options of `Chat`. */
export interface ChatSettings extends OptionValues<typeof CHAT> {}

type OnRead = (read: number, of: number) => void;
/** The options of `Chat.retain`, declared. */
export const RETAIN = {
  signal: DECODE.signal,
  onRead: callback<OnRead>('Is called while a long message is read, with the tokens read so far and their total.'),
};
/** Options of `Chat.retain`. */
export interface ChatRetainOptions extends OptionValues<typeof RETAIN> {}

/** The options of `Chat.send`, declared. */
export const SEND = {
  ...RETAIN,
  schema: {
    ...GENERATE.schema,
    says: 'The answer is JSON that fits this schema, or its beginning where `maxNewTokens` ends it; or `grammar`.',
  },
  grammar: DECODE.grammar,
};
/** Options of `Chat.send`. */
export interface SendOptions extends OptionValues<typeof SEND> {}

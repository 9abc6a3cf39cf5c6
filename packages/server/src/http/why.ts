import type { FastifyReply, FastifyRequest } from 'fastify';
import { heldOf, heldPlaces } from '@kv/engine';
import Type from 'typebox';
import type { Static } from 'typebox';
import { readPrompts } from '../protocol/prompt.ts';
import { Refusal } from '../protocol/refusal.ts';
import { expectModel, sequencePolicyOf } from '../protocol/request.ts';
import { closed, common, LIMITS } from '../protocol/schema.ts';
import { longestRead } from '../protocol/text-reader.ts';
import { chatRequest } from '../protocols/chat/fields.ts';
import { chat } from '../protocols/chat/chat.ts';
import { conversationAsk } from '../protocols/responses/responses.ts';
import type { ResponseRecord } from '../protocols/responses/responses.ts';
import type { Ask } from '../protocol/ask.ts';
import type { NamedConversations } from '../run/named-conversations.ts';
import type { AnswerServices } from './answers.ts';
import { goneSignal } from './disconnect-signal.ts';

/** Most places of a text that are told, the last ones, and most tokens of each. */
const MOST = { places: 16, tokens: 1024 };

/**
 * `POST /v1/kv/why`: a conversation as it was sent to `/v1/chat/completions`, with its last answer, or the id of a response,
 * and a text.
 */
export const whyRequest = Type.Object(
  {
    model: common.model,
    ...{ policy: common.policy, budget: common.budget, block: common.block, every: common.every },
    messages: Type.Optional(chatRequest.properties.messages),
    response: Type.Optional(Type.String({ maxLength: LIMITS.name, description: 'the id of a response' })),
    tools: chatRequest.properties.tools,
    chat_template_kwargs: chatRequest.properties.chat_template_kwargs,
    reasoning_effort: chatRequest.properties.reasoning_effort,
    text: Type.String({
      minLength: 1,
      maxLength: LIMITS.text,
      description: `a text of at most ${LIMITS.text} characters`,
    }),
  },
  closed,
);
type WhyRequest = Static<typeof whyRequest>;

/** What is left of a text in a conversation. */
export interface Why {
  readonly object: 'kv.why';
  readonly text: string;
  /** How often the text stands in the conversation. */
  readonly found: number;
  /** The last of these places: positions `[from, to)`, the share of layers and KV heads that keep each token, and its mean. */
  readonly places: readonly {
    readonly positions: readonly [number, number];
    readonly kept: number;
    readonly tokens: readonly number[];
  }[];
  readonly slots: { readonly kept: number; readonly dropped: number };
  readonly tokens: { readonly fed: number; readonly dropped: number };
  readonly policy: string;
}

/**
 * Says how much of a text the cache of a conversation still holds. It reads nothing and changes nothing.
 * @throws Refusal with 404 for a conversation whose cache is not in memory
 */
export async function why(
  parts: Pick<
    AnswerServices,
    'model' | 'name' | 'scheduler' | 'defaults' | 'reader' | 'usual' | 'maxPromptTokens' | 'letGo'
  >,
  remembered: NamedConversations<ResponseRecord>,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Why> {
  const { model, name, scheduler, defaults, maxPromptTokens, letGo } = parts,
    { text, ...conversation } = request.body as WhyRequest,
    ask = await askOf(conversation, remembered);
  expectModel(ask.model, name);
  const { of: _, ...sequencePolicy } = sequencePolicyOf(ask, defaults, model),
    limits = { ...longestRead(maxPromptTokens), signal: goneSignal(request, reply) },
    [{ turns }] = await readPrompts(ask, parts, limits).finally(() => letGo(request)),
    sequence = turns && scheduler.caches.conversations.of(turns, sequencePolicy);
  if (!sequence)
    throw new Refusal(
      'the cache of this conversation is not in memory: send its next message, with which it is read again, under the same policy, budget, block and every',
      { status: 404, param: ask.names.prompt, code: 'conversation_not_found' },
    );
  const places = heldPlaces(sequence, text),
    { slots, tokens } = heldOf(sequence);
  return {
    object: 'kv.why',
    text,
    found: places.length,
    places: places.slice(-MOST.places).map(({ positions, share, tokens: each }) => ({
      positions,
      kept: share,
      tokens: each.slice(0, MOST.tokens),
    })),
    slots,
    tokens,
    policy: sequence.active.policy.label || 'full',
  };
}

/** Reads whose cache is looked at. @throws Refusal naming what is missing */
async function askOf(
  { response, messages, ...rest }: Omit<WhyRequest, 'text'>,
  remembered: NamedConversations<ResponseRecord>,
): Promise<Pick<Ask, 'model' | 'prompt' | 'tools' | 'policy' | 'budget' | 'block' | 'every' | 'names'>> {
  if ((response === undefined) === (messages === undefined))
    throw new Refusal("'messages' or 'response' is expected, one of them", { param: 'messages' });
  if (response === undefined) {
    if (messages?.at(-1)?.role !== 'assistant')
      throw new Refusal("'messages' must end in an answer of the assistant, whose cache is looked at", {
        param: 'messages',
      });
    return chat.ask({ ...rest, messages });
  }
  const also = Object.keys(rest).find((field) => field !== 'model');
  if (also !== undefined)
    throw new Refusal(`'${also}' is expected with 'messages' alone: a response has it`, { param: also });
  const { conversation, items } = await remembered.named(response, 'response');
  if (!conversation)
    throw new Refusal(`'response' must be the id of a response, got that of an item`, { param: 'response' });
  return { ...conversationAsk(conversation, items), model: rest.model ?? conversation.model };
}

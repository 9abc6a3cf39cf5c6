import { KvError } from '@kv/core';
import { Chat, type Model } from '@kv/models';
import { sentenceOf } from '../worker/sentence.ts';
import { SIDES, type ChatChoice, type FromChat, type MemoryUse, type Side } from './messages.ts';

/** Generated tokens between two events: few, so that the left cache hardly exceeds its budget while it writes. */
const EVERY = 32;

/** Two conversations over one model, which get the same messages. */
export interface Conversations {
  /**
   * Sends a message to every side that has room; both answer by turns, token by token.
   * @throws KvError, before anything is sent, for a policy or budget that cannot be kept
   */
  send(text: string, choice: ChatChoice, signal: AbortSignal): Promise<void>;
  destroy(): void;
}

/** Begins two empty conversations. @param send is called with what happens */
export function conversations(model: Model, begun: ChatChoice, send: (message: FromChat) => void): Conversations {
  const within = windowed(model, begun.window),
    chats: Readonly<Record<Side, Chat>> = {
      left: new Chat(within, {
        policy: begun.policy,
        budget: begun.budget,
        cache: begun.cache,
        every: EVERY,
        maxNewTokens: begun.answer,
      }),
      right: new Chat(within, { cache: begun.cache, maxNewTokens: begun.answer }),
    },
    full = new Set<Side>();
  let kept: Pick<ChatChoice, 'policy' | 'budget'> = begun;

  const onRead = (side: Side, read: number, of: number): void =>
    send({ type: 'reading', side, read, of, held: heldBy(chats[side]) });

  /** Makes the left conversation keep to a policy and budget; it is read again if they changed. */
  const retain = async ({ policy, budget }: ChatChoice, signal: AbortSignal): Promise<void> => {
    const { left } = chats,
      changed = policy !== kept.policy || budget !== kept.budget,
      given = { signal, onRead: (read: number, of: number): void => onRead('left', read, of) },
      { slots } = changed ? await left.retain(policy, budget, given) : await left.retention();
    if (changed) full.delete('left');
    kept = { policy, budget };
    send({ type: 'retained', ...(slots !== undefined && { slots }) });
  };

  /** Answers on one side; yields after every token. */
  async function* answer(side: Side, text: string, signal: AbortSignal): AsyncGenerator<void> {
    const chat = chats[side];
    try {
      const generation = chat.send(text, { signal, onRead: (read, of) => onRead(side, read, of) });
      for await (const { text: more, reasoning = '' } of generation) {
        send({ type: 'chunk', side, text: more, reasoning, held: heldBy(chat) });
        yield;
      }
      const { finish } = await generation,
        held = heldBy(chat);
      send({ type: 'ended', side, finish, held });
      if (finish !== 'context' && chat.sequence.memory.slots.fits(1)) return;
      full.add(side);
      send({ type: 'full', side, held });
    } catch (error) {
      if (!KvError.is(error) || error.at === 'gpu') throw error; // the model cannot be used any more
      if (error.at !== 'chat') return send({ type: 'failed', side, message: sentenceOf(error) });
      full.add(side); // a message that does not fit is the only error of a chat that is not being answered
      send({ type: 'full', side, held: heldBy(chat) });
    }
  }

  return {
    async send(text, choice, signal) {
      await retain(choice, signal);
      const open = new Set(SIDES.filter((side) => !full.has(side)).map((side) => answer(side, text, signal)));
      while (open.size > 0) for (const side of open) if ((await side.next()).done) open.delete(side);
    },
    destroy() {
      for (const side of SIDES) chats[side].destroy();
    },
  };
}

/** Returns a model that uses only part of its context. */
const windowed = (model: Model, window: number): Model => ({
  ...model,
  config: { ...model.config, maxPositions: window },
  memory: (options) => model.memory({ ...options, window }),
});

function heldBy({ sequence: { memory, progress } }: Chat): MemoryUse {
  const { liveBytes: bytes, stateBytes: states } = memory.cache,
    rows = memory.slots.lengths().flat();
  return {
    bytes,
    peak: memory.ledger.peak,
    states,
    other: memory.ledger.live - bytes - states,
    slots: rows.reduce((sum, slots) => sum + slots, 0) / rows.length,
    tokens: progress.length,
  };
}

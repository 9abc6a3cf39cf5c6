import { KvError } from '@kv/core';
import type { Policy } from '@kv/core';
import { decode } from '@kv/models';
import type { DecodeOptions, Finish, Sequence } from '@kv/models';
import { saveCacheFile } from '../save-cache.ts';
import type { ChatTurns } from './turns.ts';

interface ConversationOptions extends Pick<DecodeOptions, 'maxNewTokens' | 'temperature' | 'topP' | 'seed'> {
  readonly policy: Policy;
  /** Slots per layer and KV head after every turn; absent if the policy evicts nothing. */
  readonly budget: number | undefined;
  /** Tokens of a turn fed between two events. */
  readonly block: number;
  /** Generated tokens between two events. */
  readonly every: number | undefined;
}

/** Called while a turn is fed, with the tokens fed so far and their total. */
type OnRead = (fed: number, of: number) => void;
/** Tokens fed at once if no event runs between them. */
const PART = 256;

/** A conversation on one cache. */
export interface Conversation {
  readonly sequence: Sequence;
  /**
   * Feeds a turn, reports progress, and writes the answer as it is generated. @throws KvError, with the conversation
   * unchanged, if the turn does not fit the model's context.
   */
  say(said: string, write: (text: string) => void, signal: AbortSignal, onRead?: OnRead): Promise<Finish>;
  save(file: string, cwd: string): Promise<void>;
}

export function createConversation(
  sequence: Sequence,
  turns: ChatTurns,
  { policy, budget, block, every, ...sampling }: ConversationOptions,
): Conversation {
  /** Tokens generated but not fed yet. */
  let pending: readonly number[] = [];
  const textSoFar = (): string => {
    const decoder = sequence.progress.text.decoder();
    return sequence.progress.text.text + pending.map((id) => decoder.push(id)).join('') + decoder.end();
  };
  const evict = async (): Promise<void> => {
    if (budget !== undefined) await sequence.evict(policy, budget);
  };
  return {
    sequence,
    async say(said, write, signal, onRead = () => undefined) {
      const fed = [...pending, ...turns.turn(said, textSoFar())];
      if (budget === undefined && !sequence.memory.slots.fits(fed.length))
        throw new KvError(
          'chat',
          `expected a turn that fits the model's context, got ${fed.length} tokens over ${sequence.progress.length}: a policy and a budget keep a conversation going`,
        );
      const made: number[] = [];
      try {
        const reading = { policy, budget, ...(budget === undefined ? { part: PART } : { block }), signal };
        for await (const read of sequence.prefillParts(fed, reading)) onRead(read, fed.length);
      } catch (error) {
        if (signal.aborted) return 'aborted';
        throw error;
      }
      const start = sequence.progress.length,
        { maxNewTokens = 64, ...rest } = sampling;
      let blank = true,
        finish: Finish;
      do {
        const answer = decode(sequence, {
          ...rest,
          maxNewTokens: maxNewTokens - made.length,
          every,
          remember: true,
          stop: turns.stop,
          signal,
        });
        let next = await answer.next();
        for (; !next.done; next = await answer.next()) {
          if (next.value.token !== undefined) made.push(next.value.token);
          blank &&= next.value.text.trim() === '';
          write(next.value.text);
        }
        finish = next.value;
        pending = made.slice(sequence.progress.length - start);
      } while (await goesOn());
      await evict();
      return finish;

      /**
       * Whether to go on after a stop before the first word: an answer must not end before it begins, so the stop text
       * is fed.
       */
      async function goesOn(): Promise<boolean> {
        const goes =
          blank && finish === 'stop' && made.length < maxNewTokens && sequence.memory.slots.fits(pending.length + 1);
        if (goes) await sequence.append(pending);
        return goes;
      }
    },
    async save(file, cwd) {
      if (pending.length > 0) await sequence.append(pending);
      pending = [];
      await evict();
      await saveCacheFile(sequence, file, cwd);
    },
  };
}

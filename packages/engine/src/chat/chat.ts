import { KvError } from '@kv/core';
import type { Budget, Policy, ResolvedOptions, PositionSpan } from '@kv/core';
import {
  allowanceOf,
  compile,
  expectBudget,
  settleOwn,
  showValue,
  withoutProtected,
  withProtected,
} from '@kv/core/engine';
import type { ChatMessage } from '@kv/checkpoints';
import type { CacheForm } from '../cache/form.ts';
import { bytesOfSlots, policySizes, type HeldBefore } from '../cache/slot-sizes.ts';
import { expectModel, expectSequence } from '../expect-given.ts';
import { givenGrammar } from '../generate/answer-grammar.ts';
import { decode } from '../generate/generate.ts';
import { isPlace, missingParts, placesOf, protectedSpans, textOfProtected } from '../generate/protect.ts';
import type { ProtectedPart } from '../generate/protect.ts';
import { everyOf, expectKept, noEffect } from '../generate/policies.ts';
import { generation } from '../generate/generation.ts';
import type { Generation } from '../generate/generation.ts';
import { report } from '../generate/report.ts';
import type { Report } from '../generate/report.ts';
import { carriedOn } from '../memory/active-policy.ts';
import type { Model } from '../memory/runtime.ts';
import type { Chunk, Finish } from '../options.ts';
import { policyOf } from '../policy-text.ts';
import { expectBias } from '../sampling/edits.ts';
import { samplingOf } from '../sampling/options.ts';
import { waits } from '../sequence/policy-schedule.ts';
import { Sequence } from '../sequence/sequence.ts';
import { yieldToEvents } from '../yield-to-events.ts';
import { CHAT, RETAIN, SEND } from './chat-options.ts';
import type { ChatSettings, ChatRetainOptions, SendOptions } from './chat-options.ts';
import { turnsOf } from './turns.ts';
import type { ChatTurns } from './turns.ts';

/** One answer of a chat. */
export interface ChatAnswer {
  /** The text for the user. */
  readonly text: string;
  /** The model's reasoning before it; absent for none. */
  readonly reasoning?: string;
  readonly tokens: readonly number[];
  readonly finish: Finish;
  /** What the conversation's cache holds after it; bytes, counts and times are of the conversation so far. */
  readonly report: Report;
}

/** What keeps a chat's cache at its budget. */
export interface ChatRetention {
  /** Absent if none was given. */
  readonly policy?: Policy;
  /** Slots per layer and KV head after each message and each answer; absent if nothing is evicted. */
  readonly slots?: number;
  /** Bytes of a cache that holds them in every layer and KV head, as far as its window reaches, moved together. */
  readonly bytes?: number;
  /** Says that the policy evicts nothing, so that its budget has no effect; absent where it has one. */
  readonly unused?: string;
  /** Tokens of a message that are read between two events. */
  readonly block: number;
  /** Generated tokens between two events. */
  readonly every?: number;
}

/** Tokens of a message read at once where no event runs between them. */
const PART = 256;

/**
 * A conversation with a model over one cache: only what is new is read, and a policy keeps the cache at its budget, past
 * the model's context too. Needs a model with a chat template; without one, each message is a line that the model goes
 * on from.
 *
 * @example
 *   const chat = new Chat(model, { policy: 'outstandingSentences', budget: 512 });
 *   for await (const { text } of chat.send('Hello!')) process.stdout.write(text);
 *   const { text } = await chat.send('And now?');
 */
export class Chat {
  readonly model: Model;
  /** What was sent and answered so far, without the system text; reasoning is `reasoning_content`, apart from `content`. */
  readonly messages: ChatMessage[] = [];
  readonly #options: ResolvedOptions<typeof CHAT>;
  readonly #keeps: Pick<ChatSettings, 'policy' | 'budget'>;
  readonly #turns: ChatTurns;
  #sequence: Sequence;
  /** Tokens of the conversation that the cache does not hold yet. */
  #unread: readonly number[] = [];
  #retention: Promise<ChatRetention> | undefined;
  #busy = false;
  /** Whether the conversation began before this chat, which then does not know its messages. */
  #isLoaded: boolean;

  /**
   * Creates a chat; nothing is read before the first message, which also reports an invalid policy or budget.
   * @throws KvError for options out of range
   */
  constructor(model: Model, options: ChatSettings = {}) {
    expectModel('chat', model);
    this.#options = settleOwn('chat', CHAT, options);
    expectBias(this.#options.logitBias, model.config.vocab);
    if (this.#options.sequence) expectOf(this.#options.sequence, model);
    this.#keeps = keptBy(this.#options);
    this.model = model;
    this.#turns = turnsOf(model, this.#options.system, this.#options.chatTemplateKwargs);
    this.#sequence = this.#options.sequence ?? new Sequence(model, undefined, { cache: this.#options.cache });
    this.#isLoaded = this.#sequence.progress.length > 0;
  }

  /** The cache of the conversation, for its counts, bytes and kept positions. `clear` and `retain` replace it. */
  get sequence(): Sequence {
    return this.#sequence;
  }

  /**
   * Sends a message and generates the answer: await it for the whole answer, or iterate over it for the tokens as they
   * come. If you stop iterating, what was generated stays in the conversation.
   * @throws KvError, with the conversation unchanged, for an invalid policy or budget, while another answer is being
   * generated, if nothing evicts and the message does not fit the model's context, or if it is refused for another reason
   * before any of it was read
   */
  send(message: string, options: SendOptions = {}): Generation<ChatAnswer> {
    if (typeof message !== 'string') throw new KvError('send', `expected a message, a text, got ${showValue(message)}`);
    const settled = settleOwn('send', SEND, options);
    return generation(() => this.#answerAlone(message, settled));
  }

  /** Returns the policy, budget and schedule. @throws KvError for an invalid policy, or a budget that it cannot keep */
  retention(): Promise<ChatRetention> {
    const { policy, budget } = this.#keeps;
    const {
      active,
      memory: { caches, slots },
    } = this.#sequence;
    return (this.#retention ??= retentionOf(this.model, policy, budget, this.#settings, {
      ...slots.traits,
      ...carriedOn(active, caches.layers),
    }));
  }

  /**
   * Goes on under another policy or budget: the conversation so far is read again, under it. `block` and `every` stay.
   * @throws KvError, with the conversation unchanged, for an invalid policy, or a budget that it cannot keep
   */
  async retain(policy: Policy | string, budget?: Budget, options: ChatRetainOptions = {}): Promise<ChatRetention> {
    const settled = settleOwn('retain', RETAIN, options),
      retention = await retentionOf(this.model, policy, budget, this.#settings);
    await this.#alone(() => this.#reread(retention, settled));
    return retention;
  }

  /** Tokens of the conversation that the cache does not hold yet: as a rule the last one that was generated. */
  get unread(): readonly number[] {
    return this.#unread;
  }

  /** Forgets the conversation. The system text, policy and budget stay. @throws KvError while an answer is generated */
  clear(): void {
    this.#expectIdle();
    this.#sequence.destroy();
    [this.#sequence, this.#unread, this.#isLoaded] = [this.#empty(), [], false];
    this.messages.length = 0;
  }

  /** Reads what was generated last and evicts to the budget, so that `sequence` can be saved. */
  async flush(): Promise<void> {
    await this.#alone(async () => {
      const retention = await this.retention();
      if (this.#unread.length > 0) await this.#read(this.#unread, retention, undefined, undefined);
      else await this.#evict(retention);
    });
  }

  /** Frees the cache. */
  destroy(): void {
    this.#sequence.destroy();
  }

  async *#answer(
    message: string,
    { signal, onRead, ...form }: ResolvedOptions<typeof SEND>,
  ): AsyncGenerator<Chunk, ChatAnswer> {
    const retention = await this.retention(),
      { maxNewTokens } = this.#options,
      sequence = this.#sequence,
      unread = this.#unread,
      before = sequence.progress.length,
      ids = [...this.#unread, ...this.#turns.turn(message, this.#text())],
      grammar = await givenGrammar(this.model, form, ids);
    const [fixed] = retention.policy ? compile(retention.policy).hooks('attend') : [];
    if ((retention.slots === undefined || fixed) && !sequence.fits(ids.length))
      throw new KvError(
        'chat',
        `expected a message that fits the model's context, got ${ids.length} tokens after ${sequence.progress.length}: ${fixed ? `'${fixed.label}' folds slots at their positions, and a policy without it keeps a conversation going` : 'a policy and a budget keep a conversation going'}`,
      );
    this.#protect(message, ids, retention);
    const tokens: number[] = [];
    let text = '',
      reasoning = '',
      finish: Finish = 'aborted',
      refused = false;
    this.messages.push({ role: 'user', content: message });
    try {
      if (!(await this.#read(ids, retention, signal, onRead)))
        return { text, tokens, finish, report: this.#report(finish, retention) };
      do {
        const [from, start] = [tokens.length, sequence.progress.length];
        const answer = decode(sequence, {
          ...samplingOf(this.#options),
          ...{ signal, grammar, turn: true },
          maxNewTokens: maxNewTokens - from,
          every: retention.every,
          remember: true,
          stop: grammar ? [] : this.#turns.stop, // what has a form ends by itself
        });
        try {
          for (;;) {
            const { done, value } = await answer.next();
            if (done) {
              finish = value;
              break;
            }
            if (value.token !== undefined) tokens.push(value.token);
            text += value.text;
            reasoning += value.reasoning ?? '';
            yield value;
          }
        } finally {
          await answer.return('aborted');
          this.#unread = tokens.slice(from + sequence.progress.length - start);
        }
      } while (
        this.#goesOn(text, finish, maxNewTokens - tokens.length) &&
        (await this.#read(this.#unread, retention, signal, undefined))
      );
      await this.#evict(retention);
    } catch (error) {
      refused = sequence.progress.length === before;
      throw error;
    } finally {
      if (refused) {
        this.messages.pop();
        this.#unread = unread;
      } else
        this.messages.push({
          ...{ role: 'assistant', content: text },
          ...(reasoning !== '' && { reasoning_content: reasoning }),
        });
    }
    return { text, ...(reasoning !== '' && { reasoning }), tokens, finish, report: this.#report(finish, retention) };
  }

  #report(finish: Finish, { block, every, unused }: ChatRetention): Report {
    const { maxNewTokens } = this.#options,
      made = report(this.#sequence, finish, { maxNewTokens, block, every, inBlocks: true });
    return { ...made, notes: [...made.notes, ...(unused === undefined ? [] : [unused]), ...this.#unprotected()] };
  }

  /**
   * Returns a note on all that is to be protected and of which the cache holds no place, and on a system text that a
   * conversation that goes on does not have.
   */
  #unprotected(): readonly string[] {
    const { memory, progress } = this.#sequence,
      { protect = [], system } = this.#options;
    const notes = protect.flatMap((one) => {
      const places = this.#placesOf(one, progress.text);
      if (!places || places.some((place) => memory.slots.holds([place]))) return [];
      const shown = showValue(isPlace(one) ? one : textOfProtected(one));
      return `${shown} is to be protected, and ${places.length > 0 ? 'was dropped before it was' : 'stands nowhere in the conversation so far'}`;
    });
    if (this.#isLoaded && system !== undefined && placesOf(system.trim(), progress.text).length === 0)
      notes.push('the system text stands nowhere in the loaded conversation: `clear` begins one with it');
    return notes;
  }

  /**
   * Returns the places of a text or a range, and of a system text that was read before this chat; of another part by its
   * name nothing.
   */
  #placesOf(one: ProtectedPart, text: Parameters<typeof placesOf>[1]): readonly PositionSpan[] | undefined {
    if (!isPlace(one)) return placesOf(textOfProtected(one), text);
    if (typeof one !== 'string') return [one as PositionSpan];
    const { system } = this.#options;
    return one === 'system' && this.#isLoaded && system !== undefined ? placesOf(system.trim(), text) : undefined;
  }

  /**
   * Protects what is to be of the tokens that come next, under this policy and any that `retain` gives later. @throws
   * KvError, with the conversation unchanged, for more than the budget holds
   */
  #protect(message: string, ids: readonly number[], { policy, slots }: ChatRetention): void {
    const { protect = [] } = this.#options,
      {
        progress,
        active,
        memory: { slots: held },
      } = this.#sequence,
      first = progress.length === 0 && this.#unread.length === 0;
    if (protect.length === 0) return;
    const text = progress.text.fork();
    for (const id of ids) text.push(id);
    const missing: string[] = [];
    const spans = protect.flatMap((one): readonly PositionSpan[] => {
      const places = this.#placesOf(one, text);
      if (places) return places.filter((place) => held.holds([place]));
      if (!first) {
        if (this.#isLoaded && active.policy.protectedSpans.length === 0)
          missing.push(
            `${showValue(one)} is to be protected, and where it stands in a loaded conversation is not known: name its text`,
          );
        return [];
      }
      const conversation = this.#turns.opening(message);
      missing.push(...missingParts([one], { conversation }));
      return protectedSpans([one], { ids, tokenizer: this.model.tokenizer, conversation });
    });
    if (policy && slots !== undefined)
      expectBudget(withProtected(withProtected(compile(policy), active.policy.protectedSpans), spans), slots);
    this.#sequence.protect(spans);
    const { notes } = this.#sequence.stats;
    notes.push(...missing.filter((note) => !notes.includes(note)));
  }

  /** Reads tokens under a policy, and returns whether all of them were read before the signal aborted. */
  async #read(
    ids: readonly number[],
    { policy, slots, block }: ChatRetention,
    signal: AbortSignal | undefined,
    onRead: ((read: number, of: number) => void) | undefined,
  ): Promise<boolean> {
    const sequence = this.#sequence,
      start = sequence.progress.length,
      // block by block, since a policy that looks at the whole model evicts once for all that it is given
      size = policy && slots !== undefined && waits(compile(policy)) ? block : ids.length,
      // the signal is heard between parts: one that ended a part in its middle would leave no conversation to go on with
      options = slots === undefined ? { policy, part: PART } : { policy, budget: slots, block };
    try {
      await yieldToEvents(signal);
      for (let from = 0; from < ids.length && !signal?.aborted; from += size)
        for await (const read of sequence.prefillParts(ids.slice(from, from + size), options)) {
          onRead?.(from + read, ids.length);
          await yieldToEvents(signal);
          if (signal?.aborted) break;
        }
      return sequence.progress.length - start === ids.length;
    } finally {
      this.#unread = ids.slice(sequence.progress.length - start);
    }
  }

  /**
   * Returns whether to go on after a stop before the first word, once the stop text is read: an answer must not end before
   * it begins.
   */
  #goesOn(text: string, finish: Finish, left: number): boolean {
    return text.trim() === '' && finish === 'stop' && left > 0 && this.#sequence.fits(this.#unread.length + 1);
  }

  async #evict({ policy, slots }: ChatRetention): Promise<void> {
    if (policy && slots !== undefined) await this.#sequence.evict(policy, slots);
  }

  /** Reads the conversation again, under another policy, and then goes on under that. */
  async #reread(retention: ChatRetention, { signal, onRead }: ResolvedOptions<typeof RETAIN>): Promise<void> {
    const ids = [...this.#sequence.progress.text.ids, ...this.#unread],
      earlier = { sequence: this.#sequence, unread: this.#unread };
    this.#sequence = this.#empty();
    try {
      this.#sequence.protect(earlier.sequence.active.policy.protectedSpans);
      if (ids.length > 0 && !(await this.#read(ids, retention, signal, onRead))) throw signal?.reason;
    } catch (error) {
      this.#sequence.destroy();
      [this.#sequence, this.#unread] = [earlier.sequence, earlier.unread];
      throw error;
    }
    earlier.sequence.destroy();
    this.#retention = Promise.resolve(retention);
  }

  /** Returns the text of the conversation as the model sees it. */
  #text(): string {
    const { text } = this.#sequence.progress,
      decoder = text.decoder();
    return text.text + this.#unread.map((id) => decoder.push(id)).join('') + decoder.end();
  }

  async *#answerAlone(message: string, options: ResolvedOptions<typeof SEND>): AsyncGenerator<Chunk, ChatAnswer> {
    this.#expectIdle();
    this.#busy = true;
    try {
      return yield* this.#answer(message, options);
    } finally {
      this.#busy = false;
    }
  }

  /** Returns an empty sequence with the window and the backend of the conversation's, stored as that is. */
  #empty(): Sequence {
    const {
      context: { backend, window, form },
      observers,
    } = this.#sequence.memory.caches;
    // pieces have no other backend than the model's where its caches are on a device
    return new Sequence(this.model, observers && backend, { cache: form, window });
  }

  /** Runs a change of the conversation; other calls meanwhile are refused. */
  async #alone(change: () => Promise<void>): Promise<void> {
    this.#expectIdle();
    this.#busy = true;
    try {
      await change();
    } finally {
      this.#busy = false;
    }
  }

  get #settings(): RetentionSettings {
    const { form, window } = this.#sequence.memory.caches.context;
    return { ...this.#options, form, window };
  }

  #expectIdle(): void {
    if (this.#busy)
      throw new KvError(
        'chat',
        'expected the answer before to be complete, got a call while it is generated: await it, or stop iterating',
      );
  }
}

/** @throws KvError for what is no sequence, or one of another model */
function expectOf(sequence: Sequence, model: Model): void {
  expectSequence('chat', sequence);
  if (sequence.model !== model && sequence.model.fingerprint !== model.fingerprint)
    throw new KvError('chat', `expected a sequence of ${model.name}, got one of ${sequence.model.name}`);
}

/** Returns the policy and budget of the options, else those of the sequence that was given, where it evicts. */
function keptBy({ policy, budget, sequence }: ResolvedOptions<typeof CHAT>): Pick<ChatSettings, 'policy' | 'budget'> {
  const active = sequence?.active;
  if (policy !== undefined || !active?.policy.evicts) return { policy, budget };
  const { slots, bytes } = active.budget ?? {};
  return {
    policy: withoutProtected(active.policy) as Policy,
    budget: budget ?? (bytes === undefined ? slots : { bytes }),
  };
}

interface RetentionSettings extends Pick<ChatSettings, 'block' | 'every'> {
  readonly form: CacheForm;
  /** Rotary positions that the conversation uses. */
  readonly window: number;
}

/**
 * Returns a chat's policy, budget and schedule.
 * @param held what its sequence holds already @defaultValue nothing
 * @throws KvError for a policy or budget that cannot be kept
 */
async function retentionOf(
  { name, config }: Model,
  given: Policy | string | undefined,
  budget: Budget | undefined,
  { block, every, form, window }: RetentionSettings,
  held?: HeldBefore,
): Promise<ChatRetention> {
  const policy = given === undefined ? undefined : await policyOf(given),
    compiled = policy && compile(policy),
    longest = Math.min(512, window);
  if (!policy || !compiled?.evicts) {
    if (budget !== undefined) expectKept(policy, budget);
    return {
      ...(policy && { policy }),
      ...(budget !== undefined && { unused: noEffect(policy, budget) }),
      block: block ?? longest,
      ...(every !== undefined && { every }),
    };
  }
  // messages need room in addition to the budget, so a policy that chooses its own size needs one too
  expectBudget({ ...compiled, choosesBudget: false }, budget);
  const sizes = policySizes(config, form, compiled, true, held), // a conversation outgrows the context, and its slots are then moved
    { slots } = allowanceOf(compiled, budget!, window, { sizes });
  if (slots >= window)
    throw new KvError('budget', `expected fewer slots than the context of ${name}, ${window}, got ${slots}`);
  const most = window - slots;
  if (block !== undefined && block > most)
    throw new KvError('block', `expected at most ${most} tokens with a budget of ${slots}, got ${block}`);
  return {
    policy,
    slots,
    bytes: bytesOfSlots(config, sizes, slots),
    block: block ?? Math.min(compiled.hooks('cadence')[0]?.block ?? longest, most),
    every: every ?? Math.min(everyOf(compiled) ?? Infinity, Math.max(1, Math.floor(most / 2))), // room for long answers
  };
}

import { createHash } from 'node:crypto';
import type { Policy, PositionSpan } from '@kv/core';
import { forkPrefix, isLong, longestPrefix } from '@kv/engine';
import type { ChatMessage, Model, Sequence } from '@kv/models';
import type { ConversationStore } from './conversation-store.ts';
import type { ConversationStart, ConversationTurns } from './conversation-turns.ts';
import { loadConversation, saveConversation, seal, type ConversationCache } from './saved-conversation.ts';
import type { SequencePolicy } from './sequence-policy.ts';
import { unlessAway } from './steady-store.ts';

/** A conversation after one of its answers, within a cache that may go further. */
export interface ConversationState extends Pick<ConversationCache, 'unread' | 'tail'> {
  readonly kept: KeptConversation;
  /** Tokens that the cache held then. */
  readonly length: number;
}

/** A cache that stays after an answer. */
export interface KeptConversation extends ConversationCache {
  /** The names of its end, and all states that it can be cut back to, by name. */
  readonly names: readonly string[];
  readonly states: Map<string, ConversationState>;
  readonly bytes: number;
  /** Where it ends, for one that was given as ids. */
  readonly end?: { readonly key: string; readonly at: number } | undefined;
  /** Whether its cache is no longer here. */
  gone: boolean;
}

/** What conversations are found by. */
export interface ConversationRequest {
  readonly ids: readonly number[];
  /** What it goes on from, and its answers make of it; absent for a prompt that is given as ids or text. */
  readonly turns?: ConversationTurns | undefined;
  /** Returns the messages that an answer's text is, in the forms that clients send back. @defaultValue its text */
  answers?(text: string): readonly ChatMessage[];
  readonly policy: Policy | undefined;
  readonly sequencePolicy: SequencePolicy;
  /** Returns the positions that no eviction may drop, of the ids that its cache holds; undefined where they are unknown. */
  readonly protect?: ((ids: readonly number[]) => readonly PositionSpan[] | undefined) | undefined;
}

/** Where the conversation lies that a request goes on from. */
export interface FoundConversation {
  readonly name: string;
  /** Absent where the ids of the request say what follows. */
  readonly start?: ConversationStart;
  /** In memory, or else the bytes from a store. */
  readonly state?: ConversationState;
  readonly file?: Uint8Array;
}

/** What happened to conversations. */
export interface ConversationCounts {
  /** Requests that went on from a cache, those of them for which one was loaded, and those that were read again. */
  continued: number;
  loaded: number;
  reread: number;
  /** Caches written, damaged or failed files, and caches that memory had no room for. */
  written: number;
  failed: number;
  dropped: number;
}

/** How many earlier states of a request are looked for in a store, the latest first. */
const LOOKED_FOR = 4;
/** Bytes of a token's id, text and place. */
const TEXT = 48;
/** The most bytes that wait to be written, beyond one conversation. */
const WRITING = 2 ** 26;

/**
 * The caches that stay after their answers, the least recently used first. A request that continues a conversation goes
 * on from its cache, whatever that has evicted; any other prompt may begin with a copy of a cache that has evicted nothing
 * and is read alike. A conversation is found by a name, which follows from all that the model was given and has answered,
 * and from the policy: never by a part of it.
 */
export class ConversationCaches {
  readonly counts: ConversationCounts = { continued: 0, loaded: 0, reread: 0, written: 0, failed: 0, dropped: 0 };
  readonly #model: Model;
  readonly #store: ConversationStore | undefined;
  readonly #failed: (cause: unknown) => void;
  /** Called when a write has ended, and another may begin. */
  onWritten: (() => void) | undefined;
  readonly #kept = new Set<KeptConversation>();
  readonly #named = new Map<string, ConversationState>();
  /** Numbers of tokens after which conversations given as ids end, by policy. */
  readonly #ends = new Map<string, Map<number, number>>();
  /** What is not written yet, and who waits for it. */
  readonly #unwritten = new Map<KeptConversation, () => void>();
  /** Files on their way to the store, by name. */
  readonly #writing = new Map<string, Uint8Array>();
  #puts: Promise<unknown> = Promise.resolve();
  #bytes = 0;
  #writingBytes = 0;

  /** @param failed is told of a store that fails, and of damaged files */
  constructor(model: Model, store: ConversationStore | undefined, failed: (cause: unknown) => void = () => {}) {
    [this.#model, this.#store] = [model, store];
    const tell = unlessAway(failed);
    this.#failed = (cause) => {
      this.counts.failed++;
      tell(cause);
    };
  }

  /** Bytes of the caches kept. */
  get bytes(): number {
    return this.#bytes;
  }
  /** Caches in memory, and what the store holds. */
  get held(): {
    readonly kept: number;
    readonly writing: number;
    readonly stored?: { readonly bytes: number; readonly entries: number };
  } {
    const stored = this.#store?.held;
    return { kept: this.#kept.size, writing: this.#writingBytes, ...(stored && { stored }) };
  }

  /** Returns the names that the states have which a request may go on from, the latest first. */
  #startsOf({ turns, ids, sequencePolicy }: ConversationRequest): readonly Pick<FoundConversation, 'name' | 'start'>[] {
    const key = keyOf(this.#model, sequencePolicy);
    if (turns) return turns.starts.map((start) => ({ name: nameOf(key, start.digest), start }));
    const ends = [...(this.#ends.get(key)?.keys() ?? [])].filter((end) => end < ids.length).sort((a, b) => a - b);
    return idDigests(ids, ends)
      .map((digest) => ({ name: nameOf(key, digest) }))
      .reverse();
  }

  /** Returns the conversation in memory that a request goes on from. */
  find(request: ConversationRequest): FoundConversation | undefined {
    for (const each of this.#startsOf(request)) {
      const state = this.#named.get(each.name);
      if (state && this.#fits(state.kept, request)) return { ...each, state };
    }
    return undefined;
  }

  /** Says why a request that continues a conversation does not go on from its cache; undefined for one that begins. */
  whyLeft(request: ConversationRequest): string | undefined {
    const starts = this.#startsOf(request),
      kept = starts.map(({ name }) => this.#named.get(name)?.kept).find((each) => each !== undefined);
    if (starts.length === 0) return undefined;
    if (!kept) return 'the cache of this conversation is gone, or its messages, tools or policy are others than before';
    if (!this.#holds(kept, request)) return "the cache of this conversation has dropped what 'kv.protect' names";
    return 'this conversation cannot go on from its cache';
  }

  /** Returns the cache of a conversation whose last message is an answer, if it is in memory. */
  of({ whole }: ConversationTurns, sequencePolicy: SequencePolicy): Sequence | undefined {
    const { kept, length } = this.#named.get(nameOf(keyOf(this.#model, sequencePolicy), whole)) ?? {};
    return kept?.sequence.progress.length === length ? kept?.sequence : undefined;
  }

  /** Whether one may be found in the store. */
  maybeStored({ turns, sequencePolicy }: ConversationRequest): boolean {
    return this.#store !== undefined && (turns?.starts.length ?? 0) > 0 && isStorable(sequencePolicy);
  }

  /** Looks for the latest state of a conversation that a request can go on from, in memory and in the store. */
  async look(request: ConversationRequest): Promise<FoundConversation | undefined> {
    const stored = this.maybeStored(request);
    for (const [i, each] of this.#startsOf(request).entries()) {
      const state = this.#named.get(each.name);
      if (state && this.#fits(state.kept, request)) return { ...each, state };
      if (!stored || i >= LOOKED_FOR) continue;
      try {
        const file = this.#writing.get(each.name) ?? (await this.#store?.get(each.name));
        if (file) return { ...each, file };
      } catch (cause) {
        this.#failed(cause);
      }
    }
    return undefined;
  }

  /** Loads what `look` has found in the store into memory; undefined for a file that is damaged. */
  async load(
    { name, file }: FoundConversation,
    request: ConversationRequest,
    mostOperations: number,
  ): Promise<ConversationState | undefined> {
    if (!file) return undefined;
    try {
      const { policy } = request,
        cache = await loadConversation(this.#model, name, file, { policy, mostOperations }),
        kept = this.#add(cache, [name]);
      this.counts.loaded++;
      if (this.#fits(kept, request)) return this.#named.get(name);
    } catch (cause) {
      this.#failed(cause);
      this.#store?.delete(name).catch(this.#failed);
    }
    return undefined;
  }

  /** Marks a cache as used most recently. */
  touch(kept: KeptConversation): void {
    if (this.#kept.delete(kept)) this.#kept.add(kept);
  }

  /** Returns a copy of a state, whose cache stays for other branches. */
  copy({ kept: { sequence }, length }: ConversationState): Sequence {
    this.counts.continued++;
    return sequence.fork(length < sequence.progress.length ? length : undefined);
  }

  /** Takes a cache out, to go on from its end. */
  move(kept: KeptConversation): Sequence {
    this.counts.continued++;
    this.#forget(kept);
    kept.sequence.memory.ledger.forgetPeaks();
    return kept.sequence;
  }

  /** Returns a copy of the longest cache that a prompt may begin with, as `longestPrefix` has it. */
  prefix(ids: readonly number[], part: number): { readonly sequence: Sequence; readonly inParts: number } | undefined {
    const found = longestPrefix(this.#kept, ids, part);
    if (!found) return undefined;
    this.touch(found.of);
    return { sequence: forkPrefix(found.of.sequence, found.shared), inParts: found.shared };
  }

  /**
   * Keeps the cache of an answer, in place of the one before that which it went on from, and of that too where it can be
   * cut back to it.
   * @param parent the one at whose end it began
   * @param text of the answer; absent where the cache holds another
   * @returns what settles once a store that others read has it, or nothing will put it there
   */
  keep(
    cache: Omit<ConversationCache, 'before'>,
    request: ConversationRequest,
    text: string | undefined,
    parent?: KeptConversation,
  ): Promise<void> | undefined {
    cache.sequence.forgetLogits();
    const { turns, sequencePolicy } = request,
      key = keyOf(this.#model, sequencePolicy),
      { sequence } = cache,
      fed = sequence.progress.text.ids,
      digests = turns ? (text === undefined ? [] : this.#after(request, text)) : idDigests(fed, [fed.length]);
    const names = digests.map((digest) => nameOf(key, digest)),
      same = names.flatMap((name) => this.#named.get(name)?.kept ?? []), // the same conversation, read another time
      kept = this.#add({ ...cache, before: parent?.names ?? [] }, names, turns ? undefined : { key, at: fed.length });
    // of a policy that evicts, events count what was generated, which a cut copy has lost
    if (!sequencePolicy.policy?.evicts) for (const each of parent ? [...same, parent] : same) this.#adopt(kept, each);
    const written =
      turns && this.#store && kept.names.length > 0 && isStorable(sequencePolicy)
        ? new Promise<void>((resolve) => this.#unwritten.set(kept, resolve))
        : undefined;
    for (const name of parent?.before ?? []) {
      const { kept: earlier } = this.#named.get(name) ?? {};
      if (earlier?.names.includes(name)) this.#drop(earlier);
      if (isStorable(sequencePolicy)) this.#store?.delete(name).catch(this.#failed);
    }
    return this.#store?.shared ? written : undefined;
  }

  /** Returns the digests of an answer; none where it cannot be read. */
  #after({ turns, answers }: ConversationRequest, text: string): readonly string[] {
    try {
      const all = answers?.(text) ?? [{ role: 'assistant', content: text }];
      return [...new Set(all.flatMap((answer) => turns?.after(answer) ?? []))];
    } catch (cause) {
      this.#failed(cause);
      return [];
    }
  }

  /** Replaces a cache by one that can be cut back to its end, and to the states before. */
  #adopt(kept: KeptConversation, other: KeptConversation): void {
    const { memory, progress } = kept.sequence,
      { length } = other.sequence.progress;
    if (memory.cut(length) !== length || !begins(other.sequence.progress.text.ids, progress.text.ids)) return;
    this.#drop(other);
    for (const [name, state] of other.states)
      if (memory.cut(state.length) === state.length && !this.#named.has(name)) this.#name(name, { ...state, kept });
  }

  /** Drops the least recently used caches until at most this many bytes are kept. */
  shrink(most: number): void {
    for (const kept of this.#kept) {
      if (this.#bytes <= most) return;
      this.counts.dropped++;
      this.#drop(kept);
    }
  }

  /** Copies what is not written yet, and begins to write the copies; `all` waits for room to write. */
  async write(all = false): Promise<void> {
    for (const [kept, written] of this.#unwritten) {
      if (this.#writingBytes > 0 && this.#writingBytes + kept.bytes > WRITING) {
        if (!all) return;
        await this.#puts;
      }
      this.#unwritten.delete(kept);
      try {
        const file = await saveConversation(kept.names, kept);
        this.#puts = Promise.allSettled([this.#puts, this.#put(kept.names, file).then(written)]);
      } catch (cause) {
        this.#failed(cause);
        written();
      }
    }
    if (all) await this.#puts;
  }

  destroy(): void {
    for (const kept of this.#kept) this.#drop(kept);
  }

  async #put(names: readonly string[], file: Uint8Array<ArrayBuffer>): Promise<void> {
    this.#writingBytes += file.length;
    try {
      await seal(file);
      for (const name of names) this.#writing.set(name, file);
      for (const name of names) await this.#store?.put(name, file);
      this.counts.written++;
    } catch (cause) {
      this.#failed(cause);
    } finally {
      for (const name of names) if (this.#writing.get(name) === file) this.#writing.delete(name);
      this.#writingBytes -= file.length;
      if (this.#unwritten.size > 0) this.onWritten?.();
    }
  }

  /**
   * Whether keys of a kept cache are rotated as those of the whole prompt would be, and it holds what the request protects:
   * what was evicted before it was protected is read again.
   */
  #fits(kept: KeptConversation, request: ConversationRequest): boolean {
    return (
      isLong(this.#model, kept.sequence.progress.rotaryLength) === isLong(this.#model, request.ids.length) &&
      this.#holds(kept, request)
    );
  }
  #holds({ sequence: { progress, memory } }: KeptConversation, { protect }: ConversationRequest): boolean {
    if (protect === undefined) return true;
    const spans = protect(progress.text.ids);
    return spans !== undefined && memory.slots.holds(spans);
  }

  #add(cache: ConversationCache, names: readonly string[], end?: KeptConversation['end']): KeptConversation {
    const { unread, tail, sequence } = cache,
      { length } = sequence.progress,
      bytes = sequence.memory.ledger.allocated + TEXT * length,
      kept: KeptConversation = { ...cache, names, states: new Map(), end, bytes, gone: false };
    for (const name of names) {
      const { kept: before, length: at } = this.#named.get(name) ?? {};
      if (before?.sequence.progress.length === at) this.#drop(before);
      this.#name(name, { kept, length, unread, tail });
    }
    this.#kept.add(kept);
    this.#bytes += kept.bytes;
    this.#count(end, 1);
    return kept;
  }

  #name(name: string, state: ConversationState): void {
    this.#named.set(name, state);
    state.kept.states.set(name, state);
  }

  #drop(kept: KeptConversation | undefined): void {
    if (!kept || kept.gone) return;
    this.#forget(kept);
    kept.sequence.destroy();
  }

  #forget(kept: KeptConversation): void {
    kept.gone = true;
    this.#kept.delete(kept);
    this.#unwritten.get(kept)?.();
    this.#unwritten.delete(kept);
    this.#bytes -= kept.bytes;
    this.#count(kept.end, -1);
    for (const [name, state] of kept.states) if (this.#named.get(name) === state) this.#named.delete(name);
  }

  /** Counts a conversation that ends at some token. */
  #count(end: KeptConversation['end'], by: number): void {
    if (!end) return;
    const { key, at } = end,
      ends = this.#ends.get(key) ?? new Map<number, number>(),
      count = (ends.get(at) ?? 0) + by;
    if (count > 0) ends.set(at, count);
    else ends.delete(at);
    if (ends.size > 0) this.#ends.set(key, ends);
    else this.#ends.delete(key);
  }
}

/** Whether these ids are the first of others. */
const begins = (ids: readonly number[], others: readonly number[]): boolean => ids.every((id, i) => id === others[i]);

/** Whether a saved cache holds all that a policy reads of the past. */
const isStorable = ({ policy }: SequencePolicy): boolean =>
  ![
    ...(policy?.needs ?? []),
    ...[...(policy?.hooks('view') ?? []), ...(policy?.hooks('step') ?? [])].flatMap(({ needs }) => needs),
  ].some((signal) => signal.hidden);

/** What conversations must have in common to go on from one another. */
const keyOf = (
  { fingerprint, cacheForm }: Pick<Model, 'fingerprint' | 'cacheForm'>,
  { policy, budget, block, every }: SequencePolicy,
): string =>
  JSON.stringify([fingerprint, cacheForm, policy?.label ?? '', budget ?? null, block ?? null, every ?? null]);

/** Returns the name of a conversation under a policy: 64 hexadecimal digits. */
const nameOf = (key: string, digest: string): string => createHash('sha256').update(`${key}\n${digest}`).digest('hex');

/** Returns the digests of the first `ends[i]` ids, which ascend. */
function idDigests(ids: readonly number[], ends: readonly number[]): string[] {
  const hash = createHash('sha256');
  let at = 0;
  return ends.map((end) => {
    hash.update(Uint32Array.from(ids.slice(at, end)));
    at = end;
    return `${end} ids ${hash.copy().digest('hex')}`;
  });
}

import { loadCache, saveCache } from '@kv/engine';
import { KvError } from '@kv/core';
import { areSpans } from '@kv/core/engine';
import type { Policy, PositionSpan } from '@kv/core';
import type { Model, Sequence } from '@kv/models';

/** The cache of a conversation after an answer, and what goes on from it needs to know. */
export interface ConversationCache {
  readonly sequence: Sequence;
  /** Tokens of the answer that the cache does not hold yet: the last one drawn, if it was not an end token. */
  readonly unread: readonly number[];
  /** The stop text that follows the answer in the cache, such as the end of a line. */
  readonly tail: string;
  /** Tokens at its start that were read in whole parts, which other prompts may share. */
  readonly inParts: number;
  /** Names of the state that it went on from. */
  readonly before: readonly string[];
}

/** What a file says before the saved cache. */
type Head = Omit<ConversationCache, 'sequence'> & {
  readonly names: readonly string[];
  /** Positions that stay protected. */
  readonly protect: readonly PositionSpan[];
};

const MAGIC = new TextEncoder().encode('kv conversation 1\n'),
  DIGEST = 32,
  /** The most bytes of a head. */
  MOST = 2 ** 14;

/** Encodes a conversation for a store, with the names that it is stored by; `seal` completes it. */
export async function saveConversation(
  names: readonly string[],
  { sequence, unread, tail, inParts, before }: ConversationCache,
): Promise<Uint8Array<ArrayBuffer>> {
  const { protectedSpans: protect } = sequence.active.policy,
    head = new TextEncoder().encode(JSON.stringify({ names, unread, tail, inParts, before, protect })),
    cache = await saveCache(sequence),
    from = MAGIC.length + DIGEST,
    file = new Uint8Array(from + 4 + head.length + cache.length);
  file.set(MAGIC);
  new DataView(file.buffer).setUint32(from, head.length, true);
  file.set(head, from + 4);
  file.set(cache, from + 4 + head.length);
  return file;
}

/** Writes the digest of what `saveConversation` has made, off this thread, once nothing waits for the cache. */
export async function seal(file: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  file.set(await digestOf(file), MAGIC.length);
  return file;
}

/**
 * Loads a conversation from the bytes of a store.
 * @throws KvError for bytes that are damaged, of another name, another model, or under a policy that reads what they lack
 */
export async function loadConversation(
  model: Model,
  name: string,
  file: Uint8Array,
  { policy, mostOperations }: { readonly policy?: Policy | undefined; readonly mostOperations?: number },
): Promise<ConversationCache> {
  const where = 'saved conversation',
    from = MAGIC.length + DIGEST,
    size = file.length < from + 4 ? 0 : new DataView(file.buffer, file.byteOffset).getUint32(from, true);
  if (MAGIC.some((byte, i) => file[i] !== byte) || size === 0 || size > Math.min(MOST, file.length - from - 4))
    throw new KvError(where, `expected one that kv has written, got ${file.length} bytes of something else`);
  const digest = await digestOf(file as Uint8Array<ArrayBuffer>);
  if (digest.some((byte, i) => byte !== file[MAGIC.length + i]))
    throw new KvError(where, 'expected the bytes that were written, got others: it is damaged');
  const head = headOf(file.subarray(from + 4, from + 4 + size), model, where);
  if (!head.names.includes(name)) throw new KvError(where, `expected that of ${name}, got another conversation's`);
  const sequence = await loadCache(model, file.subarray(from + 4 + size), {
    ...(policy && { policy }),
    cache: model.cacheForm,
    window: model.config.maxPositions,
    mostOperations,
  });
  const { names: _, protect, ...end } = head;
  try {
    if (end.inParts > sequence.progress.length)
      throw new KvError(where, `expected at most ${sequence.progress.length} tokens in parts, got ${end.inParts}`);
    if (protect.length > 0) sequence.protect(protect);
    return { sequence, ...end };
  } catch (cause) {
    sequence.destroy();
    throw cause;
  }
}

/** Reads a head. @throws KvError for any other text */
function headOf(bytes: Uint8Array, { config: { vocab } }: Model, where: string): Head {
  try {
    const {
      names,
      unread,
      tail,
      inParts,
      before,
      protect = [],
    } = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as Omit<Head, 'protect'> & Partial<Head>; // files of earlier releases do not say it
    if (
      isNames(names) &&
      isNames(before) &&
      typeof tail === 'string' &&
      Number.isSafeInteger(inParts) &&
      inParts >= 0 &&
      Array.isArray(unread) &&
      unread.length <= 1 &&
      unread.every((id) => Number.isInteger(id) && id >= 0 && id < vocab) &&
      areSpans(protect)
    )
      return { names, unread, tail, inParts, before, protect };
  } catch {
    // said below
  }
  throw new KvError(where, 'expected names and the end of its answer, got something else');
}

/** Whether these are names of conversations, and nothing that could be a path. */
const isNames = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((name) => typeof name === 'string' && /^[0-9a-f]{64}$/.test(name));

/** Returns the digest of all that follows its place in a file. */
const digestOf = async (file: Uint8Array<ArrayBuffer>): Promise<Uint8Array> =>
  new Uint8Array(await crypto.subtle.digest('SHA-256', file.subarray(MAGIC.length + DIGEST)));

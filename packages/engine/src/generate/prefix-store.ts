import { KvError } from '@kv/core';
import { compile, expectBudget, settleOwn } from '@kv/core/engine';
import type { OptionValues } from '@kv/core';
import { policySizes } from '../cache/slot-sizes.ts';
import { stateBytes } from '../decoder/keeps.ts';
import { expectIds, expectModel } from '../expect-given.ts';
import { altersReading } from '../memory/active-policy.ts';
import type { Model } from '../memory/runtime.ts';
import { PREFIX_STORE } from '../options.ts';
import type { PrefillOptions } from '../options.ts';
import { Sequence } from '../sequence/sequence.ts';

/** Options of `createPrefixStore`. */
export interface PrefixOptions extends OptionValues<typeof PREFIX_STORE> {}

/** A store of prompt caches, reused by prompts that start with the same ids. */
export interface PrefixStore {
  /**
   * Stores the cache of these ids, once. What they share with a stored prefix is not computed again.
   * @throws KvError for no ids, what are none, and once the store was destroyed
   */
  add(ids: readonly number[]): Promise<void>;
  /**
   * Returns a sequence of these ids, built on a copy of the longest stored prefix: only the rest is fed. The caller
   * destroys it.
   * @throws KvError likewise
   */
  sequence(ids: readonly number[]): Promise<Sequence>;
  /** Drops the least recently used caches until at most this many bytes are kept. */
  shrink(bytes: number): void;
  /** Tokens fed, tokens reused from the store, and caches dropped to stay within `maxBytes`. */
  readonly counts: { readonly fed: number; readonly reused: number; readonly dropped: number };
  /** Bytes of the caches kept. */
  readonly bytes: number;
  destroy(): void;
}

/**
 * Snapshots of the states that layers without slots carry, in each sequence of a store. They lie at the ends of blocks, or
 * of parts spread over what is added: what two prompts share is read again from the last one before its end.
 */
export const snapshotsOfPrefix = 8;

interface Found<S extends { readonly sequence: Sequence } = { readonly sequence: Sequence }> {
  readonly of: S;
  readonly shared: number;
}

/**
 * Returns the sequence of which a copy can begin a prompt with the most tokens: a multiple of `part` (where layers
 * carry states, one with a snapshot), and fewer than all of the prompt. If prompts are fed in parts of `part` tokens, what
 * goes on from the copy is the same, to the bit, as a prompt that was read from its start.
 * @param kept sequences, with the number of their first tokens that were fed in such parts
 */
export function longestPrefix<S extends { readonly sequence: Sequence; readonly inParts: number }>(
  kept: Iterable<S>,
  ids: readonly number[],
  part: number,
): Found<S> | undefined {
  let best: Found<S> | undefined;
  for (const of of kept) {
    const { memory, progress, model } = of.sequence;
    if (isLong(model, progress.rotaryLength) !== isLong(model, ids.length)) continue;
    const most = Math.min(common(progress.text.ids, ids), of.inParts, progress.unaltered, ids.length - 1),
      shared = memory.cut(most, part);
    if (shared > (best?.shared ?? 0)) best = { of, shared };
  }
  return best;
}

/**
 * Returns a copy of a sequence's first tokens, as many as `longestPrefix` found, that another prompt begins with. What the
 * sequence protects, and its policy and budget, are not the other's.
 */
export const forkPrefix = ({ model, memory }: Sequence, tokens: number): Sequence =>
  new Sequence(model, undefined, { start: { memory: memory.fork(tokens) } });

/**
 * Whether a prompt of this many tokens is beyond the length from which LongRoPE uses its long divisors. Keys rotated
 * with one set do not fit a prompt rotated with the other.
 */
export const isLong = ({ config }: Model, length: number): boolean =>
  length > Math.min(...config.ropes.map(({ long }) => long?.beyond ?? Infinity));

/**
 * Creates a store of prefixes for one model, policy and budget.
 *
 * @throws KvError for a policy that evicts without a budget, or an invalid byte count
 * @example
 * ```ts
 * const store = createPrefixStore(model, { maxBytes: 1e9 });
 * await store.add(system); // ids that later prompts start with
 * const sequence = await store.sequence([...system, ...question]); // feeds `question` alone
 * ```
 */
export function createPrefixStore(model: Model, options: PrefixOptions): PrefixStore {
  expectModel('createPrefixStore', model);
  const { maxBytes, policy, budget, block, backend, cache, mostOperations } = settleOwn(
    'createPrefixStore',
    PREFIX_STORE,
    options,
  );
  const compiled = policy && compile(policy),
    evicts = compiled?.evicts === true,
    alone = compiled !== undefined && (evicts || altersReading(compiled, 'prefill'));
  if (compiled) {
    expectBudget(compiled, budget, {
      sizes: policySizes(model.config, cache ?? model.cacheForm, compiled),
    });
  }
  /** Least recently used first. */
  let kept: Sequence[] = [],
    adding: Promise<void> = Promise.resolve(),
    destroyed = false;
  const counts = { fed: 0, reused: 0, dropped: 0 },
    bytes = (): number => kept.reduce((sum, { memory }) => sum + memory.ledger.allocated, 0);

  /** Returns the stored sequence that shares the longest prefix with ids, and marks it as most recently used. */
  const find = (ids: readonly number[], most: number): Found | undefined => {
    let best: Found | undefined;
    for (const sequence of kept) {
      if (isLong(model, sequence.progress.rotaryLength) !== isLong(model, ids.length)) continue;
      const same = Math.min(common(sequence.progress.text.ids, ids), most),
        { length, unaltered } = sequence.progress,
        shared = same === length ? same : sequence.memory.cut(Math.min(same, unaltered));
      if (shared > (best?.shared ?? 0)) best = { of: { sequence }, shared };
    }
    if (best) touch(best.of.sequence);
    return best;
  };
  const touch = (sequence: Sequence): void => {
    kept = [...kept.filter((each) => each !== sequence), sequence];
  };
  const shrink = (most: number): void => {
    while (kept.length > 0 && bytes() > most) {
      kept.shift()?.destroy();
      counts.dropped++;
    }
  };
  const start = (found: Found | undefined): Sequence => {
    counts.reused += found?.shared ?? 0;
    if (!found) return new Sequence(model, backend, { cache, mostOperations, snapshots: snapshotsOfPrefix });
    const {
      shared,
      of: { sequence },
    } = found;
    return shared < sequence.progress.length ? forkPrefix(sequence, shared) : sequence.fork();
  };

  /** @throws KvError once it was destroyed, and for no ids or what are none */
  const expectOpen = (ids: readonly number[]): void => {
    if (destroyed) throw new KvError('prefix store', 'was destroyed: create a new one');
    expectIds(ids, model.config.vocab);
    if (ids.length === 0) throw new KvError('prefix store', 'expected at least one id, got none');
  };

  const add = async (ids: readonly number[]): Promise<void> => {
    expectOpen(ids);
    const stored = kept.find(
      ({ progress }) => progress.length === ids.length && common(progress.text.ids, ids) === ids.length,
    );
    if (stored) {
      counts.reused += ids.length;
      touch(stored);
      return;
    }
    // A compacted prefix has lost slots that an event over the longer prompt would read, and one with views or frozen
    // rows was read as a prompt of its own length: feed all of it again.
    const found = alone ? undefined : find(ids, ids.length),
      sequence = start(found),
      rest = ids.slice(found?.shared ?? 0);
    if (rest.length > 0)
      await orDestroyed(sequence, fedInParts(sequence, rest, { ...(policy && { policy }), budget, block }));
    counts.fed += rest.length;
    kept.push(sequence);
    shrink(destroyed ? 0 : maxBytes);
  };

  return {
    counts,
    get bytes() {
      return bytes();
    },
    async add(ids) {
      expectOpen(ids);
      // one after another, since what is added at the same time is not found before it is read
      const own = [...ids],
        added = adding.then(() => add(own));
      adding = added.catch(() => {});
      await added;
    },
    async sequence(ids) {
      expectOpen(ids);
      // Always feed the last token: the caller continues from its logits.
      const found = find(ids, ids.length - 1),
        sequence = start(found),
        rest = ids.slice(found?.shared ?? 0);
      await orDestroyed(
        sequence,
        policy && !evicts
          ? sequence.prefill(rest, { policy, block })
          : found
            ? sequence.append(rest)
            : sequence.prefill(rest, { block }),
      );
      counts.fed += rest.length;
      return sequence;
    },
    shrink,
    destroy() {
      destroyed = true;
      for (const sequence of kept) sequence.destroy();
      kept = [];
    },
  };
}

/** Feeds a prompt, where layers carry states in as many parts as there are snapshots. */
async function fedInParts(sequence: Sequence, ids: readonly number[], options: PrefillOptions): Promise<void> {
  const carries = stateBytes(sequence.model.config) > 0,
    part = carries ? Math.max(LEAST_PART, Math.ceil(ids.length / snapshotsOfPrefix)) : undefined;
  for await (const _ of sequence.prefillParts(ids, { ...options, part }));
}

/** Tokens of a part at least: a pass of fewer takes as long. */
const LEAST_PART = 16;

/** Destroys the sequence if feeding it fails. */
async function orDestroyed(sequence: Sequence, fed: Promise<void>): Promise<void> {
  try {
    await fed;
  } catch (error) {
    sequence.destroy();
    throw error;
  }
}

function common(a: readonly number[], b: readonly number[]): number {
  let n = 0;
  while (n < a.length && n < b.length && a[n] === b[n]) n++;
  return n;
}

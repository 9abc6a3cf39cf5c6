import { compile, expectBudget, settleOwn } from '@kv/core/engine';
import type { OptionValues } from '@kv/core';
import { policySizes } from '../cache/slot-sizes.ts';
import type { Model } from '../memory/runtime.ts';
import { PREFIX_STORE } from '../options.ts';
import { Sequence } from '../sequence/sequence.ts';

/** Options of `createPrefixStore`. */
export interface PrefixOptions extends OptionValues<typeof PREFIX_STORE> {}

/** A store of prompt caches, reused by prompts that start with the same ids. */
export interface PrefixStore {
  /** Stores the cache of these ids. What they share with a stored prefix is not computed again. */
  add(ids: readonly number[]): Promise<void>;
  /**
   * Returns a sequence of these ids, built on a copy of the longest stored prefix: only the rest is fed. The caller
   * destroys it.
   */
  sequence(ids: readonly number[]): Promise<Sequence>;
  /**
   * Returns a copy of the longest stored prefix, with nothing fed. The copy is cut to a multiple of `part` tokens of a
   * prompt (where layers carry states, to one of which there is a snapshot) and never covers all of the ids. If prompts are fed in parts of `part` tokens, the result is the same, to
   * the bit, as without the store.
   */
  begin(ids: readonly number[], part: number): Sequence;
  /**
   * Takes ownership of a finished sequence. Its prompt becomes a stored prefix, unless it evicted something, or is no
   * shorter than `part` tokens and stored already; then the sequence is destroyed.
   */
  keep(sequence: Sequence, part: number): void;
  /** Drops the least recently used caches until at most this many bytes are kept. */
  shrink(bytes: number): void;
  /** Tokens fed, tokens reused from the store, and caches dropped to stay within `maxBytes`. */
  readonly counts: { readonly fed: number; readonly reused: number; readonly dropped: number };
  /** Bytes of the caches kept. */
  readonly bytes: number;
  destroy(): void;
}

/**
 * Snapshots of the states that layers without slots carry, in each sequence of a store. They lie at the ends of parts,
 * spread over the prompt: what two prompts share is read again from the last one before its end.
 */
export const snapshotsOfPrefix = 8;

interface Found {
  readonly sequence: Sequence;
  readonly shared: number;
}

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
  const { maxBytes, policy, budget, block, backend, cache, mostOperations } = settleOwn(
    'createPrefixStore',
    PREFIX_STORE,
    options,
  );
  const evicts = policy !== undefined && compile(policy).evicts;
  if (policy) {
    const compiled = compile(policy);
    expectBudget(compiled, budget, {
      sizes: policySizes(model.config, cache ?? model.cacheForm, compiled),
    });
  }
  /** Least recently used first. */
  let kept: Sequence[] = [];
  const counts = { fed: 0, reused: 0, dropped: 0 },
    bytes = (): number => kept.reduce((sum, { memory }) => sum + memory.ledger.allocated, 0);

  /**
   * Prompt length beyond which LongRoPE uses its long divisors. Keys rotated with one set do not fit a prompt rotated
   * with the other.
   */
  const beyond = Math.min(...model.config.ropes.map(({ long }) => long?.beyond ?? Infinity)),
    isLong = (length: number): boolean => length > beyond;
  /** Returns the stored sequence that shares the longest prefix with ids, and marks it as most recently used. */
  const find = (ids: readonly number[], most: number): Found | undefined => {
    let best: Found | undefined;
    for (const sequence of kept) {
      if (isLong(sequence.progress.rotaryLength) !== isLong(ids.length)) continue;
      const same = Math.min(common(sequence.progress.text.ids, ids), most),
        shared = same === sequence.progress.length ? same : sequence.memory.cut(same);
      if (shared > (best?.shared ?? 0)) best = { sequence, shared };
    }
    if (best) touch(best.sequence);
    return best;
  };
  /** Returns how many tokens of a stored prompt, in whole parts, these ids begin with, if a copy may end there. */
  const begun = (sequence: Sequence, ids: readonly number[], most: number, part: number): number => {
    const { memory, progress } = sequence,
      same = Math.min(common(progress.text.ids, ids), progress.promptLength, most);
    return isLong(progress.rotaryLength) === isLong(ids.length) ? memory.cut(same, part) : 0;
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
    const { shared, sequence } = found;
    return sequence.fork(shared < sequence.progress.length ? shared : undefined);
  };

  return {
    counts,
    get bytes() {
      return bytes();
    },
    async add(ids) {
      // A compacted prefix has lost slots that an event over the longer prompt would read: feed all of it again.
      const found = evicts ? undefined : find(ids, ids.length),
        sequence = start(found),
        rest = ids.slice(found?.shared ?? 0);
      if (rest.length > 0)
        await orDestroyed(sequence, sequence.prefill(rest, { ...(policy && { policy }), budget, block }));
      counts.fed += rest.length;
      kept.push(sequence);
      shrink(maxBytes);
    },
    async sequence(ids) {
      // Always feed the last token: the caller continues from its logits.
      const found = find(ids, ids.length - 1),
        sequence = start(found),
        rest = ids.slice(found?.shared ?? 0);
      await orDestroyed(sequence, found ? sequence.append(rest) : sequence.prefill(rest, { block }));
      counts.fed += rest.length;
      return sequence;
    },
    begin(ids, part) {
      let best: Found | undefined;
      for (const sequence of kept) {
        const shared = begun(sequence, ids, ids.length - 1, part);
        if (shared > (best?.shared ?? 0)) best = { sequence, shared };
      }
      if (best) touch(best.sequence);
      return start(best);
    },
    keep(sequence, part) {
      const ids = sequence.progress.text.ids.slice(0, sequence.progress.promptLength),
        whole = sequence.memory.cut(ids.length, part),
        same = whole > 0 ? kept.find((other) => begun(other, ids, ids.length, part) >= whole) : undefined;
      if (same) touch(same);
      if (same || whole === 0) return sequence.destroy();
      kept.push(sequence);
      shrink(maxBytes);
    },
    shrink,
    destroy() {
      for (const sequence of kept) sequence.destroy();
      kept = [];
    },
  };
}

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

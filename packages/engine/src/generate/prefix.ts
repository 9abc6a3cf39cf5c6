import { compile, expectBudget, settleOwn } from '@kv/core/engine';
import type { OptionValues } from '@kv/core';
import type { Model } from '../memory/runtime.ts';
import { PREFIX_STORE } from '../options.ts';
import { Sequence } from '../sequence/sequence.ts';

export interface PrefixOptions extends OptionValues<typeof PREFIX_STORE> {}

/** Caches of prompts that others begin with. */
export interface PrefixStore {
  /** Keeps the cache of these ids; what they share with a stored prefix is not computed again. */
  add(ids: readonly number[]): Promise<void>;
  /** A sequence of these ids over a copy of the longest stored prefix: only the rest is fed. The caller destroys it. */
  sequence(ids: readonly number[]): Promise<Sequence>;
  /**
   * The same with nothing fed: of the longest stored prefix, cut to a multiple of `part` tokens of a prompt, and never
   * all of the ids. With prompts that were fed in parts of so many, what follows is what it would be without the store,
   * to the bit.
   */
  begin(ids: readonly number[], part: number): Sequence;
  /**
   * Takes a sequence over that its caller is through with: its prompt is a prefix from now on, unless it is no shorter
   * than `part` tokens and stored already, or evicted something; then it is destroyed.
   */
  keep(sequence: Sequence, part: number): void;
  /** Drops what was used least recently until no more than so many bytes are kept. */
  shrink(bytes: number): void;
  /**
   * Tokens that were fed, tokens that were taken from the store, and caches that were dropped to stay within
   * `maxBytes`.
   */
  readonly counts: { readonly fed: number; readonly reused: number; readonly dropped: number };
  /** Bytes of the caches kept. */
  readonly bytes: number;
  destroy(): void;
}

interface Found {
  readonly sequence: Sequence;
  readonly shared: number;
}

/**
 * A store of prefixes for one model and one way of keeping them. @throws KvError for a policy that evicts without a
 * budget, or bytes that are no count.
 */
export function createPrefixStore(model: Model, options: PrefixOptions): PrefixStore {
  const { maxBytes, policy, budget, block, backend, mostOperations } = settleOwn(
    'createPrefixStore',
    PREFIX_STORE,
    options,
  );
  const evicts = policy !== undefined && compile(policy).evicts;
  if (policy) expectBudget(compile(policy), budget);
  /** Least recently used first. */
  let kept: Sequence[] = [];
  const counts = { fed: 0, reused: 0, dropped: 0 },
    bytes = (): number => kept.reduce((sum, { ledger }) => sum + ledger.allocated, 0);

  /**
   * Which divisors LongRoPE turns a prompt of this length by: keys turned by one do not fit a prompt that begins by the
   * other.
   */
  const beyond = Math.min(...model.config.ropes.map(({ long }) => long?.beyond ?? Infinity)),
    isLong = (length: number): boolean => length > beyond;
  /** The stored sequence that shares most with ids, now the one used last. */
  const find = (ids: readonly number[], most: number): Found | undefined => {
    let best: Found | undefined;
    for (const sequence of kept) {
      if (isLong(sequence.memory.rotaryLength) !== isLong(ids.length)) continue;
      const all = common(sequence.tokens.ids, ids),
        cut = Math.min(all, most),
        shared = cut >= sequence.memory.cuttableFrom || cut === sequence.length ? cut : 0;
      if (shared > (best?.shared ?? 0)) best = { sequence, shared };
    }
    if (best) touch(best.sequence);
    return best;
  };
  /** How much of a stored prompt, in whole parts, these ids begin with, where a copy may end so. */
  const begun = (sequence: Sequence, ids: readonly number[], most: number, part: number): number => {
    const same = Math.min(common(sequence.tokens.ids, ids), sequence.promptLength, most),
      cut = part * Math.floor(same / part);
    return isLong(sequence.memory.rotaryLength) === isLong(ids.length) && cut >= sequence.memory.cuttableFrom ? cut : 0;
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
    if (!found) return new Sequence(model, backend, { mostOperations });
    return found.shared < found.sequence.length ? found.sequence.forkAt(found.shared) : found.sequence.fork();
  };

  return {
    counts,
    get bytes() {
      return bytes();
    },
    async add(ids) {
      // A compacted prefix has lost what an event over the longer prompt would have looked at: it begins anew.
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
      // The last token is always fed: its logits are what the caller goes on from.
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
      const ids = sequence.tokens.ids.slice(0, sequence.promptLength),
        whole = part * Math.floor(ids.length / part);
      const same = kept.find((other) => begun(other, ids, ids.length, part) === whole);
      if (same) touch(same);
      if (same || whole === 0 || sequence.memory.cuttableFrom > whole) return sequence.destroy();
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

/** What fails leaves nothing of its sequence. */
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

import { slotRows } from '@kv/checkpoints';
import type { PositionSpan } from '@kv/core';
import { sumOf, turnsOf } from '@kv/core/shared';
import { placesOf } from '../generate/protect.ts';
import type { Sequence } from '../sequence/sequence.ts';

/** What a sequence holds of all that it was fed, and what it has dropped: the words of reports, of the server and of `kv`. */
export interface CacheHoldings {
  /** Slots over all layers and KV heads: those in the cache, and those of tokens fed that are not there any more. */
  readonly slots: { readonly kept: number; readonly dropped: number };
  /** Tokens fed, and those of them that no layer and KV head holds any more. */
  readonly tokens: { readonly fed: number; readonly dropped: number };
  /** Bytes of the slots in the cache: keys, values and positions. */
  readonly bytes: { readonly live: number; readonly peak: number };
}

/** A place of a text in a sequence, and how much of it is held. */
export interface HeldPlace {
  /** Positions of the tokens that hold a part of it. */
  readonly positions: PositionSpan;
  /** The share of layers and KV heads that hold each of these tokens. */
  readonly tokens: readonly number[];
  /** The mean of these shares in each layer. */
  readonly layers: readonly number[];
  /** Their mean. */
  readonly share: number;
}

/** A part of what was fed, and how much of it is held. */
export interface HeldSpan {
  readonly positions: PositionSpan;
  /** Whose turn it is, where it is one. */
  readonly role?: string;
  /** Its tokens, and those of them that no layer and KV head holds any more. */
  readonly tokens: CacheHoldings['tokens'];
  /** The mean share of layers and KV heads that hold one. */
  readonly share: number;
}

type Holder = Pick<Sequence, 'progress' | 'memory'>;
/** Positions held, `[layer][kvHead]`. */
type Kept = readonly (readonly (readonly number[])[])[];

/** Returns the tokens that every layer was fed, and which of them are held: a block that failed counts as not fed. */
function wholeOf({ progress, memory }: Holder): { readonly length: number; readonly kept: Kept } {
  const { whole: length } = progress,
    kept = memory.slots.kept();
  return {
    length,
    kept: length === progress.length ? kept : kept.map((heads) => heads.map((row) => row.filter((p) => p < length))),
  };
}

/** Returns, for each of `tokens` tokens, the share of layers and KV heads that hold it. */
export function heldShares(kept: Kept, tokens: number): readonly number[] {
  const rows = kept.flat(),
    counts = new Array<number>(tokens).fill(0);
  for (const row of rows) for (const position of row) counts[position]++;
  return counts.map((count) => count / rows.length);
}

/** Returns what a sequence holds and has dropped. */
export function heldOf(holder: Holder): CacheHoldings {
  const { memory } = holder,
    { cache } = memory,
    { length, kept } = wholeOf(holder),
    count = sumOf(kept.flat().map((row) => row.length));
  return {
    slots: { kept: count, dropped: length * slotRows(memory.caches.context.model.config) - count },
    tokens: { fed: length, dropped: heldShares(kept, length).filter((share) => share === 0).length },
    bytes: { live: cache.liveBytes, peak: cache.peakBytes },
  };
}

/**
 * Returns how much is held of every part of what a sequence was fed: of the units that its policy cut the text into by
 * position, such as `spans`, else of the turns of a conversation; undefined where there are neither.
 */
export function heldSpans(holder: Holder, units: Uint32Array | undefined): readonly HeldSpan[] | undefined {
  const { text } = holder.progress,
    { length, kept } = wholeOf(holder),
    parts = units ? unitSpans(units, length) : turnsOf(text, length);
  if (parts.length < 2) return undefined;
  const shares = heldShares(kept, length);
  return parts.map((part): HeldSpan => {
    const { start, end } = part,
      role = 'role' in part ? part.role : '';
    const own = shares.slice(start, end);
    return {
      positions: [start, end],
      ...(role !== '' && { role }),
      tokens: { fed: end - start, dropped: own.filter((share) => share === 0).length },
      share: sumOf(own) / own.length,
    };
  });
}

/** Returns neighbouring positions of one unit as a span; what was fed after the units were cut is a span of its own. */
function unitSpans(units: Uint32Array, length: number): { readonly start: number; readonly end: number }[] {
  const starts = Array.from({ length }, (_, p) => p).filter((p) => p === 0 || units[p] !== units[p - 1]);
  return starts.map((start, i) => ({ start, end: starts[i + 1] ?? length }));
}

/** Returns the places of a text in what a sequence was fed, in order, and how much of each is held. */
export function heldPlaces({ progress, memory }: Holder, text: string): readonly HeldPlace[] {
  const places = placesOf(text, progress.text),
    kept = places.length === 0 ? [] : memory.slots.kept(),
    layers = kept.map((heads) => heldShares([heads], progress.length)),
    all = heldShares(kept, progress.length);
  return places.map((positions): HeldPlace => {
    const mean = (shares: readonly number[]): number =>
        sumOf(shares.slice(...positions)) / (positions[1] - positions[0]),
      tokens = all.slice(...positions);
    return { positions, tokens, layers: layers.map(mean), share: mean(all) };
  });
}

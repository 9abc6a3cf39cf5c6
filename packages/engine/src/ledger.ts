import { KvError } from '@kv/core';

/** The phase that a sample belongs to. */
export type LedgerPhase = 'prefill' | 'decode';

/** Bytes of one name: allocated capacity, the part of it in use, and the most that was in use. */
export interface LedgerEntry {
  readonly allocated: number;
  readonly live: number;
  readonly peak: number;
}

/** Bytes of everything that a sequence holds: caches, rings, statistics, states. */
export interface Bytes {
  readonly allocated: number;
  readonly live: number;
  readonly peak: number;
  readonly meanPrefill: number;
  readonly meanDecode: number;
}

/**
 * Counts bytes by name (cache, rings, states): `allocated` is capacity, `live` what is in use. Peaks are kept; means
 * are over samples.
 * @throws KvError from any method that would make a count negative or is given no byte count.
 */
export class Ledger {
  #entries = new Map<string, { allocated: number; live: number; peak: number }>();
  #samples = { prefill: { weight: 0, live: 0, allocated: 0 }, decode: { weight: 0, live: 0, allocated: 0 } };
  #allocated = 0;
  #live = 0;
  #peak = 0;
  #peakAllocated = 0;

  /** Bytes of capacity now. */
  get allocated(): number {
    return this.#allocated;
  }
  /** Bytes in use now. */
  get live(): number {
    return this.#live;
  }
  /** The most bytes in use at any time. */
  get peak(): number {
    return this.#peak;
  }
  /** The most bytes of capacity at any time, storage that is being replaced included. */
  get peakAllocated(): number {
    return this.#peakAllocated;
  }

  /** Adds `bytes` of capacity. */
  allocate(name: string, bytes: number): void {
    this.#change(name, 'allocated', bytes);
  }
  /** Removes `bytes` of capacity. */
  free(name: string, bytes: number): void {
    this.#change(name, 'allocated', -bytes);
  }
  /** Adds `bytes` in use. */
  use(name: string, bytes: number): void {
    this.#change(name, 'live', bytes);
  }
  /** Removes `bytes` in use. */
  release(name: string, bytes: number): void {
    this.#change(name, 'live', -bytes);
  }

  /** Returns the counts of one name; zero for a name never seen. */
  entry(name: string): LedgerEntry {
    return { ...(this.#entries.get(name) ?? { allocated: 0, live: 0, peak: 0 }) };
  }
  /** Returns all names that were ever counted. */
  names(): readonly string[] {
    return [...this.#entries.keys()];
  }

  /** Counts, as peaks, the most that a copy of a sequence has held, whose own ledger this is. */
  countCopy(copy: Ledger): void {
    const { peak, peakAllocated } = copy,
      slots = copy.entry('cache').peak;
    this.allocate('cache', peakAllocated);
    this.use('cache', slots);
    this.use('copies', peak - slots);
    this.release('copies', peak - slots);
    this.release('cache', slots);
    this.free('cache', peakAllocated);
  }
  /** Begins peaks again, at the bytes as they are now. */
  forgetPeaks(): void {
    for (const entry of this.#entries.values()) entry.peak = entry.live;
    [this.#peak, this.#peakAllocated] = [this.#live, this.#allocated];
  }

  /** Records the bytes as they are now, for `weight` tokens or seconds. */
  sample(phase: LedgerPhase, weight = 1): void {
    const sample = this.#samples[phase];
    sample.weight += weight;
    sample.live += weight * this.#live;
    sample.allocated += weight * this.#allocated;
  }
  /** Returns the weighted mean of the samples of a phase, bytes; 0 without samples. */
  mean(phase: LedgerPhase, of: 'live' | 'allocated' = 'live'): number {
    const sample = this.#samples[phase];
    return sample.weight === 0 ? 0 : sample[of] / sample.weight;
  }

  /** Returns the counts of a report. */
  bytes(): Bytes {
    return {
      allocated: this.allocated,
      live: this.live,
      peak: this.peak,
      meanPrefill: this.mean('prefill'),
      meanDecode: this.mean('decode'),
    };
  }

  #change(name: string, field: 'allocated' | 'live', bytes: number): void {
    const entry = this.#entries.get(name) ?? { allocated: 0, live: 0, peak: 0 };
    const next = entry[field] + bytes;
    if (!Number.isSafeInteger(bytes) || next < 0)
      throw new KvError(
        'Ledger',
        `the ${field} bytes of ${name} must stay an integer of at least 0, got ${entry[field]} and then ${next}`,
      );
    entry[field] = next;
    entry.peak = Math.max(entry.peak, entry.live);
    this.#entries.set(name, entry);
    if (field === 'live') this.#peak = Math.max(this.#peak, (this.#live += bytes));
    else this.#peakAllocated = Math.max(this.#peakAllocated, (this.#allocated += bytes));
  }
}

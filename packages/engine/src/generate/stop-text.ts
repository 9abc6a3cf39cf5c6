/**
 * Passes text on until one of the stop strings appears: the one that ends first and, of those, begins first, wherever the
 * text is cut into pieces. Holds back what may be the start of one.
 */
export class StopText {
  /** The stop string that appeared. */
  found: string | undefined;
  readonly #stops: readonly string[];
  #held = '';

  constructor(stops: readonly string[]) {
    this.#stops = stops.filter((s) => s !== '');
  }

  /** Whether a stop string has appeared. */
  get stopped(): boolean {
    return this.found !== undefined;
  }

  /** Returns the part of the text so far that is final and not yet returned. */
  push(text: string): string {
    if (this.stopped) return '';
    const all = this.#held + text;
    let [start, end] = [0, Infinity];
    for (const stop of this.#stops) {
      const at = all.indexOf(stop),
        to = at + stop.length;
      if (at >= 0 && (to < end || (to === end && at < start))) [start, end, this.found] = [at, to, stop];
    }
    if (this.stopped) {
      this.#held = '';
      return all.slice(0, start);
    }
    const hold = Math.max(0, ...this.#stops.map((s) => overlap(all, s)));
    this.#held = all.slice(all.length - hold);
    return all.slice(0, all.length - hold);
  }

  /** Returns what was held back, at the end of the text. */
  end(text: string): string {
    const rest = this.push(text) + this.#held;
    this.#held = '';
    return rest;
  }
}

/** Returns the length of the longest suffix of `text` that is a prefix of `stop`. */
function overlap(text: string, stop: string): number {
  for (let n = Math.min(stop.length - 1, text.length); n > 0; n--) if (text.endsWith(stop.slice(0, n))) return n;
  return 0;
}

/**
 * A number for every slot of a cache on the device, as the host knows it, head by head: what the last event left, and
 * what joined all heads since.
 */
export class HeldSlots {
  #held: readonly (readonly number[])[];
  #joined: number[] = [];

  constructor(held: readonly (readonly number[])[]) {
    this.#held = held;
  }

  join(more: Iterable<number>): void {
    this.#joined.push(...more);
  }

  /** Only these slots of each head stay. */
  keep(slots: readonly Uint32Array[]): void {
    this.#held = slots.map((list, g) =>
      Array.from(list, (slot) => this.#held[g][slot] ?? this.#joined[slot - this.#held[g].length]),
    );
    this.#joined = [];
  }

  /** How many numbers of each head, which ascend, lie below `limit`. */
  below(limit: number): number[] {
    const count = (list: readonly number[]): number => {
      let n = 0;
      while (n < list.length && list[n] < limit) n++;
      return n;
    };
    return this.#held.map((held) => {
      const n = count(held);
      return n < held.length ? n : n + count(this.#joined);
    });
  }

  /** `[kvHead][slot]` */
  rows(): number[][] {
    return this.#held.map((held) => [...held, ...this.#joined]);
  }
}

/**
 * The host's copy of one number for every slot of a device cache, by head: those that the last event kept, and those
 * appended to all heads since.
 */
export class SlotTable {
  #held: readonly (readonly number[])[];
  #joined: number[] = [];

  constructor(held: readonly (readonly number[])[]) {
    this.#held = held;
  }

  join(more: Iterable<number>): void {
    this.#joined.push(...more);
  }

  /** Keeps only these slots of each head. */
  keep(slots: readonly Uint32Array[]): void {
    this.#held = slots.map((list, g) =>
      Array.from(list, (slot) => this.#held[g][slot] ?? this.#joined[slot - this.#held[g].length]),
    );
    this.#joined = [];
  }

  /** Returns how many numbers of each head, which ascend, lie below `limit`. */
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

  /** Returns the numbers, `[kvHead][slot]`. */
  rows(): number[][] {
    return this.#held.map((held) => [...held, ...this.#joined]);
  }
}

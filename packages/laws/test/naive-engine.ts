import { retain } from '@kv/cpu';
import type { Cache, Policy, RetainState } from '@kv/core';

interface Slot {
  readonly position: number;
  readonly key: readonly number[];
  readonly value: readonly number[];
}

/** A toy decoder with one key and one value a token and head, and a cache in lists: `slots[layer][head]`. */
export class NaiveEngine {
  static readonly vocab = 100;
  readonly policy: Policy;
  slots: Slot[][][];
  state: RetainState = new Map();
  length = 0;

  constructor(policy: Policy, layers = 2, heads = 2) {
    this.policy = policy;
    this.slots = Array.from({ length: layers }, () => Array.from({ length: heads }, () => []));
  }

  static async open(policy: Policy): Promise<NaiveEngine> {
    return new NaiveEngine(policy);
  }

  async feed(ids: readonly number[]): Promise<void> {
    const vector = (seed: number): number[] => [0, 1, 2, 3].map((c) => Math.fround(Math.sin(seed * 12.9 + c * 7.7)));
    for (const id of ids) {
      const position = this.length++;
      for (const [l, heads] of this.slots.entries())
        for (const [g, row] of heads.entries()) {
          const seed = id + 3 * position + 11 * l + 17 * g;
          row.push({ position, key: vector(seed), value: vector(seed + 0.5) });
        }
    }
  }

  async cache(): Promise<Cache> {
    const array = (heads: Slot[][], of: (slot: Slot) => readonly number[]) => ({
      data: Float32Array.from(heads.flatMap((row) => row.flatMap(of))),
      shape: [heads.length, heads[0].length, 4],
    });
    const layers = this.slots.map((heads) => ({
      keys: array(heads, ({ key }) => key),
      values: array(heads, ({ value }) => value),
      positions: {
        data: Uint32Array.from(heads.flatMap((row) => row.map(({ position }) => position))),
        shape: [heads.length, heads[0].length],
      },
    }));
    return { layers, queryHeads: this.slots[0].length, length: this.length, state: this.state };
  }

  async evict(budget: number): Promise<void> {
    const { slots, state } = await retain(this.policy, await this.cache(), { budget }); // throws before anything changes
    this.slots = this.slots.map((heads, l) => heads.map((row, g) => Array.from(slots[l][g], (slot) => row[slot])));
    this.state = state;
  }

  async fork(): Promise<NaiveEngine> {
    const { slots, state, length } = this;
    return Object.assign(new NaiveEngine(this.policy), {
      state,
      length,
      slots: slots.map((l) => l.map((g) => [...g])),
    });
  }
}

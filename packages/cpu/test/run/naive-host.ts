import { advance, retain } from '@kv/cpu';
import type { Budget, HostArray, Policy, RetainResult, RetainState } from '@kv/core';

/** Shapes of a toy transformer: one vector per token, projected by fixed numbers. */
export interface Toy {
  readonly layers: number;
  readonly queryHeads: number;
  readonly kvHeads: number;
  readonly dim: number;
}
interface Layer {
  keys: number[][][]; // [head][slot][channel]
  values: number[][][];
  positions: number[][];
  queries: number[][][]; // [query head][query][channel]
}

const wave = (seed: number): number => Math.sin(seed * 12.9898) * 2;
const array = (rows: readonly (readonly (readonly number[])[])[]): HostArray => {
  const longest = Math.max(0, ...rows.map((row) => row.length));
  const dim = rows.flat()[0]?.length ?? 1;
  const data = rows.flatMap((row) => [...row.flat(), ...new Array<number>((longest - row.length) * dim).fill(NaN)]);
  return { data: Float32Array.from(data), shape: [rows.length, longest, dim] };
};

/** A separate engine: it holds a cache in nested lists, and uses policies only through `retain` and `advance`. */
export class NaiveHost {
  length = 0;
  private state: RetainState = new Map();
  private readonly layers: Layer[];
  private readonly toy: Toy;
  private readonly policy: Policy;
  constructor(toy: Toy, policy: Policy) {
    this.toy = toy;
    this.policy = policy;
    const rows = <T>(n: number): T[][] => Array.from({ length: n }, () => []);
    this.layers = Array.from({ length: toy.layers }, () => ({
      keys: rows(toy.kvHeads),
      values: rows(toy.kvHeads),
      positions: rows(toy.kvHeads),
      queries: rows(toy.queryHeads),
    }));
  }
  feed(id: number): void {
    const vector = (kind: number, l: number, head: number): number[] =>
      Array.from({ length: this.toy.dim }, (_, c) =>
        wave(id * 7 + kind * 31 + l * 17 + head * 5 + c * 3 + this.length),
      );
    for (const [l, layer] of this.layers.entries()) {
      for (const [g, row] of layer.keys.entries()) {
        row.push(vector(1, l, g));
        layer.values[g].push(vector(2, l, g));
        layer.positions[g].push(this.length);
      }
      for (const [h, row] of layer.queries.entries()) row.push(vector(3, l, h));
    }
    this.length++;
  }
  private get cache() {
    const layers = this.layers.map(({ keys, values, positions, queries }) => ({
      keys: array(keys),
      values: array(values),
      queries: array(queries),
      lengths: keys.map((row) => row.length),
      positions: {
        ...array(positions.map((row) => row.map((p) => [p]))),
        shape: [positions.length, Math.max(...positions.map((row) => row.length))],
      },
    }));
    return {
      layers,
      queryHeads: this.toy.queryHeads,
      length: this.length,
      promptLength: this.length,
      state: this.state,
    };
  }
  async step(): Promise<void> {
    this.state = await advance(this.policy, this.cache);
  }
  async evict(budget: Budget): Promise<RetainResult> {
    const kept = await retain(this.policy, this.cache, { budget });
    for (const [l, layer] of this.layers.entries())
      for (const [g, slots] of kept.slots[l].entries()) {
        const take = <T>(row: readonly T[]): T[] => Array.from(slots, (s) => row[s]);
        layer.keys[g] = take(layer.keys[g]);
        layer.values[g] = take(layer.values[g]);
        layer.positions[g] = take(layer.positions[g]);
      }
    this.state = kept.state;
    return kept;
  }
}

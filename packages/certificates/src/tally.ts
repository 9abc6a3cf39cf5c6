import { certificate } from './mass.ts';

/** Mean and maximum over the rows. */
export interface Spread {
  readonly mean: number;
  readonly max: number;
}
/** Summary of the certificates of many rows; fields as in `Certificate`. */
export interface Summary {
  /** Number of rows. */
  readonly rows: number;
  /** δ, exactly the total variation of each query's attention. */
  readonly dropped: Spread;
  /** δ*, the least that sets of these sizes can drop. */
  readonly best: Spread;
  /** Share of the best set that was kept. */
  readonly overlap: Spread;
  /** ln(1 / (1 - δ)), the KL divergence of the kept from the whole attention, in nats. */
  readonly divergence: Spread;
  /** Bound on the difference of the entropies, in nats. */
  readonly entropy: Spread;
  /** PrHS, eq. 4, in nats. */
  readonly information: Spread;
  /** δ by layer, mean over its rows. */
  readonly byLayer: readonly number[];
}

/** Returns an accumulator of mean and maximum. */
export function running(): { add(x: number): void; take(): Spread } {
  let sum = 0,
    max = -Infinity,
    count = 0;
  return {
    add(x) {
      sum += x;
      max = Math.max(max, x);
      count++;
    },
    take: () => (count === 0 ? { mean: 0, max: 0 } : { mean: sum / count, max }),
  };
}

const NAMES = ['dropped', 'best', 'overlap', 'divergence', 'entropy', 'information'] as const;

/** Returns an accumulator of the certificates of rows. */
export function tally(): {
  add(layer: number, weights: ArrayLike<number>, kept: readonly number[]): void;
  take(): Summary | undefined;
} {
  const all = Object.fromEntries(NAMES.map((name) => [name, running()])) as Record<
      (typeof NAMES)[number],
      ReturnType<typeof running>
    >,
    layers: ReturnType<typeof running>[] = [];
  let rows = 0;
  return {
    add(layer, weights, kept) {
      const found = certificate(weights, kept);
      for (const name of NAMES) all[name].add(found[name]);
      (layers[layer] ??= running()).add(found.dropped);
      rows++;
    },
    take() {
      if (rows === 0) return undefined;
      const { dropped, best, overlap, divergence, entropy, information } = all;
      return {
        rows,
        dropped: dropped.take(),
        best: best.take(),
        overlap: overlap.take(),
        divergence: divergence.take(),
        entropy: entropy.take(),
        information: information.take(),
        byLayer: Array.from(layers, (layer) => layer?.take().mean ?? 0),
      };
    },
  };
}

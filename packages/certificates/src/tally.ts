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

/** Returns an accumulator of rows of these numbers: how many rows there were, and mean and maximum of each number. */
export function spreads<N extends string>(
  names: readonly N[],
): {
  add(row: Readonly<Record<N, number>>): void;
  take(): ({ readonly rows: number } & Readonly<Record<N, Spread>>) | undefined;
} {
  const all = names.map((name) => [name, running()] as const);
  let rows = 0;
  return {
    add(row) {
      for (const [name, each] of all) each.add(row[name]);
      rows++;
    },
    take: () =>
      rows === 0
        ? undefined
        : { rows, ...(Object.fromEntries(all.map(([name, each]) => [name, each.take()])) as Record<N, Spread>) },
  };
}

const NAMES = ['dropped', 'best', 'overlap', 'divergence', 'entropy', 'information'] as const;

/** Returns an accumulator of the certificates of rows. */
export function tally(): {
  add(layer: number, weights: ArrayLike<number>, kept: readonly number[], sink?: number): void;
  take(): Summary | undefined;
} {
  const all = spreads(NAMES),
    layers: ReturnType<typeof running>[] = [];
  return {
    add(layer, weights, kept, sink) {
      const found = certificate(weights, kept, sink);
      all.add(found);
      (layers[layer] ??= running()).add(found.dropped);
    },
    take() {
      const taken = all.take();
      return taken && { ...taken, byLayer: Array.from(layers, (layer) => layer?.take().mean ?? 0) };
    },
  };
}

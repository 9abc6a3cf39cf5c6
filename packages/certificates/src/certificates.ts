import { fitDecay, windowBound } from './design.ts';
import type { Decay } from './design.ts';
import { certificate, retrievalRatio } from './mass.ts';

/** One query head's newest query: its weights over all slots, and what is left for it. As `generate` of `@kv/models` shows it. */
export interface SeenRow {
  readonly at: 'event' | 'view';
  readonly layer: number;
  readonly head: number;
  readonly step: number;
  /** Position of the query. */
  readonly query: number;
  readonly weights: ArrayLike<number>;
  /** Original positions of the slots. */
  readonly positions: ArrayLike<number>;
  readonly kept: readonly number[];
}
/** Mean over the rows, and the largest. */
export interface Spread { readonly mean: number; readonly max: number }
/** What rows of one sort came to, as in `Certificate`. */
export interface Summary {
  readonly rows: number;
  /** δ, exactly the total variation that the loss costs each query. */
  readonly dropped: Spread;
  /** δ*, the least that sets of these sizes can drop. */
  readonly best: Spread;
  /** Share of the best set that was kept. */
  readonly overlap: Spread;
  readonly divergence: Spread;
  readonly entropy: Spread;
  readonly information: Spread;
  /** δ by layer, mean over its rows. */
  readonly byLayer: readonly number[];
}
/** How attention beyond the sinks fades with age: (1 - τ_sink) e^(-λ D), fitted to this run. */
export interface Fading extends Decay {
  /** Mass of the first positions, τ_sink, mean over the rows. */
  readonly sinkMass: number;
  /** Ages D = 1, 2, 4, ... with the mass that is older, measured and by the bound with the fitted λ. */
  readonly ages: readonly { readonly age: number; readonly measured: number; readonly bound: number }[];
}
/** What a run's report holds under `certificates`. */
export interface Certificates {
  /** Evictions, for the newest query of each. */
  readonly events?: Summary;
  /** Views, for every generated token. */
  readonly views?: Summary;
  /** Retrievals over H L steps, ρ, under CIS: what it did not reuse. */
  readonly retrievalRatio?: number;
  /** Absent where no row reaches far enough to fit. */
  readonly fading?: Fading;
}

type Name = 'dropped' | 'best' | 'overlap' | 'divergence' | 'entropy' | 'information';
const NAMES: readonly Name[] = ['dropped', 'best', 'overlap', 'divergence', 'entropy', 'information'];

function tally(): { add(layer: number, weights: ArrayLike<number>, kept: readonly number[]): void; take(): Summary | undefined } {
  const sums = new Map<Name, { sum: number; max: number }>(NAMES.map((name) => [name, { sum: 0, max: -Infinity }])), layers: { sum: number; rows: number }[] = [];
  let rows = 0;
  return {
    add(layer, weights, kept) {
      const found = certificate(weights, kept), own = (layers[layer] ??= { sum: 0, rows: 0 });
      for (const name of NAMES) { const at = sums.get(name)!; at.sum += found[name]; at.max = Math.max(at.max, found[name]); }
      own.sum += found.dropped;
      own.rows++;
      rows++;
    },
    take() {
      if (rows === 0) return undefined;
      const spread = (name: Name): Spread => ({ mean: sums.get(name)!.sum / rows, max: sums.get(name)!.max });
      return { rows, dropped: spread('dropped'), best: spread('best'), overlap: spread('overlap'), divergence: spread('divergence'), entropy: spread('entropy'), information: spread('information'), byLayer: Array.from(layers, (l) => (l ? l.sum / l.rows : 0)) };
    },
  };
}

/** Ages 1, 2, 4, ... with the mass beyond the sinks that is at least so old. */
function ages(sinks: number): { add(row: SeenRow): void; take(): Fading | undefined } {
  const older: { sum: number; rows: number }[] = [];
  let sink = 0, rows = 0;
  return {
    add({ query, weights, positions }) {
      let held = 0;
      const tails: number[] = [];
      for (let i = 0; i < positions.length; i++) {
        if (positions[i]! < sinks) { held += weights[i]!; continue; }
        for (let k = 0; 2 ** k <= query - positions[i]!; k++) tails[k] = (tails[k] ?? 0) + weights[i]!;
      }
      for (let k = 0; 2 ** k <= query - sinks; k++) { const at = (older[k] ??= { sum: 0, rows: 0 }); at.sum += tails[k] ?? 0; at.rows++; }
      sink += held;
      rows++;
    },
    take() {
      const points = older.map(({ sum, rows: n }, k) => [2 ** k, sum / n] as const).filter(([, mass]) => mass > 0), sinkMass = sink / Math.max(1, rows);
      if (points.length < 2) return undefined;
      const decay = fitDecay(points);
      return { ...decay, sinkMass, ages: points.map(([age, measured]) => ({ age, measured, bound: windowBound({ sinkMass, rate: decay.rate, window: age }) })) };
    },
  };
}

/** What there was to see: `total` adds up a state that pieces kept in all layers. */
export interface Run { readonly heads: number; readonly layers: number; readonly steps: number; total(state: string): number | undefined }

/**
 * Collects what a run drops and hides, and concludes certificates about it: `generate(model, { ..., certify: certificates() })`, then `report.certificates`.
 *
 * @remarks PrHS, Lemma 1 and the bounds that can be checked. Weights are those of the newest query over the slots that were there: what earlier events evicted is not among them.
 * @param options.sinks positions that the fading of attention leaves out
 */
export function certificates({ sinks = 4 }: { readonly sinks?: number } = {}): { row(row: SeenRow): void; conclude(run: Run): Certificates } {
  const events = tally(), views = tally(), fading = ages(sinks);
  return {
    row(row) {
      (row.at === 'event' ? events : views).add(row.layer, row.weights, row.kept);
      fading.add(row);
    },
    conclude(run) {
      const [gone, hidden, faded] = [events.take(), views.take(), fading.take()], found = run.total('state.cis.retrievals');
      return { ...(gone && { events: gone }), ...(hidden && { views: hidden }), ...(found !== undefined && run.steps > 0 && { retrievalRatio: retrievalRatio(found, run) }), ...(faded && { fading: faded }) };
    },
  };
}

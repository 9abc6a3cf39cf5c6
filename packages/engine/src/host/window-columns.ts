import { signalKey } from '@kv/core/engine';
import type { AnySignal } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import type { WindowColumns } from '../attention/attention.ts';
import type { Ledger } from '../ledger.ts';
import type { QueryRing } from './query-ring.ts';
import { statisticOf, windowOf } from '../memory/observation-plan.ts';

/**
 * Statistics of the last queries that an event reads, computed while the queries attend. Valid until the cache changes.
 * Counted in the ledger under `statistics`.
 */
export class WindowStatsCache {
  readonly #ledger: Ledger;
  readonly #columns = new Map<string, WindowColumns>();
  readonly #means = new WeakSet<Float32Array>();
  #stride = 0;
  #bytes = 0;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  /**
   * Allocates `[heads, stride]` for every such signal whose queries are among the newest m, and returns the windows as
   * options of attention: only statistics that `able` accepts. `coming` of the m are not in the ring yet.
   */
  allocate(
    { needs }: CompiledPolicy,
    ring: QueryRing | undefined,
    m: number,
    heads: number,
    stride: number,
    { coming = 0, able = () => true }: { readonly coming?: number; able?(of: WindowColumns['of']): boolean } = {},
  ): readonly WindowColumns[] {
    this.clear();
    this.#stride = stride;
    const wanted: [key: string, Omit<WindowColumns, 'columns'>][] = [];
    for (const signal of needs) {
      const w = windowOf(signal);
      if (w === 0 || signal.id === 'queries' || !ring || w > ring.window) continue;
      const queries = Math.min(w, ring.count(w) + coming),
        of = statisticOf(signal);
      if (queries <= m && able(of)) wanted.push([signalKey(signal), { queries, of }]);
    }
    const size = heads * stride,
      bytes = Float32Array.BYTES_PER_ELEMENT * size * new Map(wanted).size;
    this.#ledger.allocate('statistics', bytes);
    this.#ledger.use('statistics', bytes);
    this.#bytes = bytes;
    for (const [key, rest] of wanted) this.#columns.set(key, { ...rest, columns: new Float32Array(size) });
    return this.windows;
  }

  /** The allocated windows. */
  get windows(): readonly WindowColumns[] {
    return [...this.#columns.values()];
  }
  /** Distance between rows. */
  get stride(): number {
    return this.#stride;
  }

  /**
   * Returns what was computed for a signal, if it was allocated: the largest, or the mean of what was added. Nothing
   * more may be added after that.
   */
  of(signal: AnySignal): Float32Array | undefined {
    const window = this.#columns.get(signalKey(signal));
    if (!window) return undefined;
    const { columns, queries, of } = window;
    if (of === 'max' || queries === 1 || this.#means.has(columns)) return columns;
    for (let i = 0; i < columns.length; i++) columns[i] = columns[i] / queries;
    this.#means.add(columns);
    return columns;
  }

  /** Drops everything, because the cache has changed. */
  clear(): void {
    this.#ledger.release('statistics', this.#bytes);
    this.#ledger.free('statistics', this.#bytes);
    this.#columns.clear();
    this.#bytes = 0;
  }
}

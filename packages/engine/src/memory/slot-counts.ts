import { headsOf } from '@kv/checkpoints';
import type { LayerContext, PositionSpan } from '@kv/core';
import type { ModelConfig } from '@kv/checkpoints';
import { slotModel } from '../decoder/keeps.ts';
import type { ActivePolicy } from './active-policy.ts';
import type { SequenceContext } from './context.ts';
import type { TokenProgress } from './progress.ts';

/** Unreachable slots that a window may leave before they are freed. */
const spareOf = (window: number): number => Math.floor(window / 8);

/** The slots that a layer holds. */
export interface LayerSlots {
  /** Slots of the longest head. */
  readonly slots: number;
  /** Whether every head holds the same positions. */
  readonly aligned: boolean;
  /** Whether slots add something to their logits. */
  readonly biased: boolean;
  /** Whether slots have levels of their own. */
  readonly demoted: boolean;
  /** Slots in use, `[kvHead]`. */
  readonly lengths: ArrayLike<number>;
  /** Returns how many slots of each head, its first ones, come before this position, `[kvHead]`. */
  before(position: number): number[];
  /** Returns the positions, `[kvHead][slot]`. */
  kept(): number[][];
}

/** The layers whose slots are counted. */
export interface CountedLayers {
  of(layer: number): LayerSlots;
  /** Drops the first `count` slots of each head of a layer, `[kvHead]`. */
  dropFirst(layer: number, count: readonly number[]): void;
  /** Whether every layer holds its cache and nothing else, with no slot demoted. */
  plain(): boolean;
  /** The learned sinks of a layer's query heads, where it has them. */
  sinks(layer: number): Float32Array | undefined;
}

/**
 * What is computed from the slots of a sequence's layers and the windows that they see: of the layers that keep slots,
 * counted from 0.
 */
export class SlotCounts {
  readonly #config: ModelConfig;
  readonly #window: number;
  readonly #progress: TokenProgress;
  readonly #layers: CountedLayers;

  constructor({ model, window, progress }: SequenceContext, layers: CountedLayers) {
    [this.#config, this.#window, this.#progress, this.#layers] = [slotModel(model.config), window, progress, layers];
  }

  /** Slots of the longest head of any layer that the newest token sees. */
  get longest(): number {
    let most = 0;
    for (let l = 0; l < this.#config.layers; l++) {
      const { slots, lengths, before } = this.#layers.of(l),
        unseen = this.#firstSeen(l) === 0 ? undefined : before(this.#firstSeen(l));
      most = Math.max(most, unseen ? Math.max(...unseen.map((n, g) => lengths[g] - n)) : slots);
    }
    return most;
  }

  /** Returns whether `more` tokens fit in the model's context after the kept slots. */
  fits(more: number): boolean {
    return this.longest + more <= this.#window;
  }

  /**
   * Returns the slots that the newest token sees, `[layer][kvHead]`, once `more` have joined every layer: the
   * candidates to keep.
   */
  lengths(more = 0): number[][] {
    const length = this.#progress.length + more;
    return this.#all().map(({ lengths, before }, l) => {
      const from = this.#firstSeen(l, length),
        unseen = from === 0 ? undefined : before(from),
        joined = Math.min(more, length - from);
      return Array.from(lengths, (n, g) => n - (unseen?.[g] ?? 0) + joined);
    });
  }

  /** Number of layers that keep slots. */
  get layers(): number {
    return this.#config.layers;
  }

  /** Returns the positions in the cache, `[layer][kvHead]`, ascending. */
  kept(): number[][][] {
    return this.#all().map(({ kept }) => kept());
  }

  /** Returns whether every layer and KV head holds these positions, of those fed that the newest token can see there. */
  holds(spans: readonly PositionSpan[]): boolean {
    const { length } = this.#progress,
      fed = spans.map(([from, to]) => [from, Math.min(to, length)] as const).filter(([from, to]) => from < to);
    if (fed.length === 0) return true;
    return this.#all().every(({ before }, l) =>
      fed.every(([from, to]) => {
        const [start, end] = [Math.max(from, this.#firstSeen(l)), to],
          held = before(end);
        return start >= end || before(start).every((n, g) => held[g] - n === end - start);
      }),
    );
  }

  /** Whether slots of some layer have biases, and levels of their own. */
  get traits(): Pick<LayerSlots, 'biased' | 'demoted'> {
    const all = this.#all();
    return { biased: all.some(({ biased }) => biased), demoted: all.some(({ demoted }) => demoted) };
  }

  /** Returns what pieces may know of a layer, or will once `ahead` more tokens have been generated. */
  layerContext(layer: number, { budget }: ActivePolicy, ahead = 0): LayerContext {
    const { layers, attention } = this.#config,
      heads = headsOf(this.#config, layer),
      { slots: held, aligned, biased } = this.#layers.of(layer),
      { decoded, promptLength, length } = this.#progress,
      sinks = this.#layers.sinks(layer),
      slots = held + ahead;
    return {
      layer,
      layers,
      ...heads,
      ...(attention.scale !== 1 / Math.sqrt(heads.headDim) && { scale: attention.scale }),
      ...(attention.softcap !== undefined && { softcap: attention.softcap }),
      ...(this.#windowOf(layer) < Infinity && { window: this.#windowOf(layer) }),
      ...(sinks && { learnedSinks: sinks }),
      ...(biased && { biased }),
      step: decoded + ahead,
      promptLength,
      length: length + ahead,
      slots,
      aligned,
      budget: budget?.slots ?? slots,
      selectRows: heads.kvHeads,
    };
  }

  /**
   * The fewest tokens that a copy may be cut to: nothing that they see was evicted or demoted, and nothing is recorded
   * of single queries. Infinity if no copy may be cut.
   */
  get cuttableFrom(): number {
    if (!this.#layers.plain() || this.#progress.shift > 0) return Infinity;
    return Math.max(
      ...this.#all().map(({ lengths, before }, l) => {
        const first = this.#progress.length - lengths[0];
        if (Array.prototype.some.call(lengths, (n) => n !== lengths[0]) || before(first).some((n) => n > 0))
          return Infinity; // not all of the last ones
        return first === 0 ? 0 : first + this.#windowOf(l) - 1;
      }),
    );
  }

  /**
   * Frees a layer's slots that neither the newest token nor a later one can see, decided by original positions: in all
   * heads, once one head has more than `spare` of them.
   */
  freeUnreachable(layer: number, spare = 0): void {
    const unseen = this.#unseen(layer);
    if (Math.max(0, ...unseen) <= spare) return;
    this.#layers.dropFirst(layer, unseen);
    this.#progress.unreachable += unseen.reduce((a, b) => a + b);
  }

  /** Frees unreachable slots before a generated token: once they are an eighth of a window, not at every token. */
  freeBeforeToken(): void {
    for (const [l, window] of this.#config.attention.windows.entries())
      if (window !== Infinity) this.freeUnreachable(l, spareOf(window));
  }

  /** Tokens that may still be generated before `freeBeforeToken` frees slots. */
  get tokensUntilFreed(): number {
    return Math.min(
      ...this.#config.attention.windows.map((window, l) =>
        window === Infinity ? Infinity : spareOf(window) + 1 - Math.max(0, ...this.#unseen(l)),
      ),
    );
  }

  /** Returns how many slots of each head of a layer the newest token cannot see. */
  #unseen(layer: number): number[] {
    const from = this.#firstSeen(layer);
    return from === 0 ? [] : this.#layers.of(layer).before(from);
  }

  /** Returns the first position that the newest of `length` tokens sees in a layer. */
  #firstSeen(layer: number, length: number = this.#progress.length): number {
    return Math.max(0, length - this.#windowOf(layer));
  }

  #windowOf(layer: number): number {
    return this.#config.attention.windows[layer] ?? Infinity;
  }

  #all(): readonly LayerSlots[] {
    return Array.from({ length: this.#config.layers }, (_, l) => this.#layers.of(l));
  }
}

import type { AnySignal, At, Backend } from '@kv/core';
import type { AttentionCounters } from '../attention.ts';
import { Ledger } from '../ledger.ts';
import type { Model } from '../load-model.ts';
import { LayerMemory } from './layer.ts';
import { reader } from './provide.ts';
import { StateStore } from './store.ts';
import { TokenText } from './text.ts';
import { watchOf } from './watch.ts';

/** All that one sequence remembers, and where its pieces run. */
export class Memory {
  readonly model: Model;
  readonly backend: Backend;
  readonly ledger: Ledger = new Ledger();
  readonly counters: AttentionCounters = { fused: 0, statistics: 0 };
  text: TokenText;
  layers: readonly LayerMemory[];
  /** State of rows `model`. */
  shared: StateStore;
  promptLength = 0;
  /** Tokens generated. */
  decoded = 0;
  /** Most slots that a head of any layer has held. */
  mostSlots = 0;
  /** Slots per KV head asked for; absent where nothing evicts. */
  budget: number | undefined;

  constructor(model: Model, backend: Backend) {
    [this.model, this.backend, this.text] = [model, backend, new TokenText(model.tokenizer)];
    this.layers = Array.from({ length: model.config.layers }, () => new LayerMemory(model.config, this.ledger));
    this.shared = new StateStore(model.config, this.ledger);
  }

  /** Tokens fed so far, evicted ones included. */
  get length(): number {
    return this.text.ids.length;
  }

  /** Remembers from now on what these signals read. */
  watch(needs: readonly AnySignal[]): void {
    for (const layer of this.layers) layer.watch(watchOf(needs), this.model.config, this.ledger);
  }

  at(layer: number): At {
    const { layers, queryHeads, kvHeads, headDim } = this.model.config, { cache, aligned } = this.layers[layer]!;
    const { decoded: step, promptLength, length, budget = cache.length } = this;
    return { layer, layers, queryHeads, kvHeads, headDim, step, promptLength, length, slots: cache.length, aligned, budget, selectRows: kvHeads };
  }

  reader(layer: number, provided: ReadonlyMap<string, unknown> = new Map()): (signal: AnySignal) => unknown {
    const { shared, text: tokens, counters, backend } = this;
    return reader({ memory: this.layers[layer]!, shared, tokens, ops: backend.ops, counters, provided });
  }

  /** Slots in use, `[layer][kvHead]`, once `more` tokens have joined every layer. */
  lengths(more = 0): number[][] {
    return this.layers.map(({ cache }) => Array.from(cache.lengths, (n) => n + more));
  }

  fork(): Memory {
    const { model: { config }, layers, shared, text, promptLength, decoded, mostSlots, budget } = this, copy = new Memory(this.model, this.backend);
    copy.layers = layers.map((layer) => layer.fork(config, copy.ledger, 0));
    copy.shared = shared.fork(copy.ledger);
    return Object.assign(copy, { text: text.fork(), promptLength, decoded, mostSlots, budget });
  }

  destroy(): void {
    for (const layer of this.layers) layer.destroy();
    this.shared.destroy();
  }
}

import type { AnySignal, At, Backend } from '@kv/core';
import type { AttentionCounters } from '../attention.ts';
import { layerAttention } from '../attention/layer-attention.ts';
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
  /** Length by which positions turn for as long as the sequence lives: that of its first prompt, whatever is appended or generated. */
  rotaryLength = 0;
  /** Tokens generated. */
  decoded = 0;
  /** Positions that there are to rotate by. */
  window: number;
  /** How far new tokens' rotations lie below their positions; 0 until the kept slots are moved together. */
  shift = 0;
  /** Most slots that a head of any layer has held. */
  mostSlots = 0;
  /** Slots per KV head asked for; absent where nothing evicts. */
  budget: number | undefined;

  constructor(model: Model, backend: Backend, window: number = model.config.maxPositions) {
    [this.model, this.backend, this.window, this.text] = [model, backend, window, new TokenText(model.tokenizer)];
    this.layers = Array.from({ length: model.config.layers }, () => new LayerMemory(model.config, this.ledger));
    this.shared = new StateStore(model.config, this.ledger);
  }

  /** Tokens fed so far, evicted ones included. */
  get length(): number {
    return this.text.ids.length;
  }

  /** Slots of the longest head of any layer. */
  get longest(): number {
    return Math.max(...this.layers.map(({ cache }) => cache.length));
  }

  /** Where tokens of these positions stand in rotary position embedding. */
  rotations(positions: Uint32Array): Uint32Array {
    return this.shift === 0 ? positions : positions.map((p) => p - this.shift);
  }

  /** So many more tokens are to be the prompt's. */
  prompted(more: number): void {
    this.promptLength = this.length + more;
    if (this.length === 0) this.rotaryLength = more;
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
    const { shared, text: tokens, counters, backend, model: { config, decoder } } = this;
    return reader({ memory: this.layers[layer]!, shared, tokens, ops: backend.ops, counters, provided, attention: layerAttention(config, layer), queryHeads: config.queryHeads, outputWeight: () => decoder.outputWeight(layer), rope: { rotary: config.rope.rotary, angles: (p) => decoder.angles(this.rotations(p), this.rotaryLength) } });
  }

  /** Slots in use, `[layer][kvHead]`, once `more` tokens have joined every layer. */
  lengths(more = 0): number[][] {
    return this.layers.map(({ cache }) => Array.from(cache.lengths, (n) => n + more));
  }

  /** @param upTo of a memory that has evicted nothing: its first tokens alone */
  fork(upTo: number = this.length): Memory {
    const { model: { config }, layers, shared, text, promptLength, rotaryLength, decoded, mostSlots, budget, shift } = this, copy = new Memory(this.model, this.backend, this.window);
    copy.layers = layers.map((layer) => layer.fork(config, copy.ledger, 0));
    copy.shared = shared.fork(copy.ledger);
    if (upTo < this.length) {
      const slots = Uint32Array.from({ length: upTo }, (_, i) => i);
      for (const { cache } of copy.layers) cache.keep(Array.from(cache.lengths, () => slots));
    }
    return Object.assign(copy, { text: text.fork(upTo), promptLength: Math.min(promptLength, upTo), rotaryLength, decoded, mostSlots, budget, shift });
  }

  destroy(): void {
    for (const layer of this.layers) layer.destroy();
    this.shared.destroy();
  }
}

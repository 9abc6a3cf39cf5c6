import type { Backend } from '@kv/core';
import type { HostDecoder, PassOptions, Course, BatchGroup, MemoryOptions, MemoryModel } from '@kv/engine';
import { HostMemory } from '@kv/engine';
import { TokenSeat } from './together.ts';
import type { Whole } from './whole.ts';

/**
 * A sequence whose caches lie in the module's memory: tokens pass whole there. Views and frozen rows, which need a word
 * between a layer's queries and its attention, take the host's pass over the same caches. Tokens of several sequences pass
 * together.
 */
export class WasmMemory extends HostMemory {
  readonly #whole: Whole;

  constructor(
    whole: Whole,
    decoder: HostDecoder,
    model: MemoryModel,
    backend: Backend,
    options?: Pick<MemoryOptions, 'window' | 'signal' | 'mostOperations'>,
  ) {
    super(decoder, model, backend, { ...options, store: whole.store });
    this.#whole = whole;
    Object.assign(this.counters, { whole: 0, layered: 0, together: 0 });
  }

  override get group(): BatchGroup {
    return this.#whole.group;
  }

  protected override async through(ids: readonly number[], options: PassOptions): Promise<Float32Array[]> {
    const { place } = options,
      whole = passesWhole(options.course, options.phase),
      { counters } = this;
    if (whole) counters.whole = (counters.whole ?? 0) + 1;
    else counters.layered = (counters.layered ?? 0) + 1;
    if (whole && place instanceof TokenSeat && ids.length === 1 && !options.afterLayers)
      return place.pass(this, ids[0], options);
    // the others need not wait for what goes by itself
    place?.leave();
    return whole ? this.#whole.pass(this, ids, options) : super.through(ids, options);
  }

  override empty(): WasmMemory {
    const { decoder, model, backend, window, signal } = this;
    return new WasmMemory(this.#whole, decoder, model, backend, { window, signal });
  }
}

/** Whether nothing in this phase has a say between a layer's queries and its attention. */
const passesWhole = ({ policy }: Course, phase: PassOptions['phase']): boolean =>
  policy.hooks('view').every(({ during }) => during !== 'both' && during !== phase) &&
  (phase === 'decode' || policy.hooks('freeze').length === 0);

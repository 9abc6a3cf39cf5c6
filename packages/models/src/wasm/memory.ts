import type { Backend } from '@kv/core';
import type { HostDecoder } from '../host/decoder.ts';
import { HostMemory } from '../host/host-memory.ts';
import type { PassOptions } from '../host/pass.ts';
import type { Course } from '../sequence/course.ts';
import type { MemoryOptions } from '../sequence/runtime.ts';
import type { MemoryModel } from '../sequence/sequence-memory.ts';
import type { Whole } from './whole.ts';

/**
 * A sequence whose caches lie in the module's memory: tokens pass whole there. Views and frozen rows, which need a word
 * between a layer's queries and its attention, and places among several memories take the host's pass over the same caches.
 */
export class WasmMemory extends HostMemory {
  readonly #whole: Whole;

  constructor(
    whole: Whole,
    decoder: HostDecoder,
    model: MemoryModel,
    backend: Backend,
    options?: Pick<MemoryOptions, 'window' | 'signal'>,
  ) {
    super(decoder, model, backend, { ...options, store: whole.store });
    this.#whole = whole;
    Object.assign(this.counters, { whole: 0, layered: 0 });
  }

  protected override async through(ids: readonly number[], options: PassOptions): Promise<Float32Array[]> {
    const whole = options.decoder === undefined && passesWhole(options.course, options.phase),
      { counters } = this;
    if (whole) counters.whole = (counters.whole ?? 0) + 1;
    else counters.layered = (counters.layered ?? 0) + 1;
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

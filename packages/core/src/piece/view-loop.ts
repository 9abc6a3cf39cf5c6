import type { ForcedEnds, LayerContext } from './layer-context.ts';
import type { State } from './state.ts';

/**
 * A piece's part of a view as WebAssembly over the engine's memory. Engines that have such memory run the loops of all
 * pieces inside a view between a layer's projections and its attention, on all threads, without returning to
 * JavaScript. A view runs this way if each of its pieces has a loop, also where slots were evicted, by head or in all;
 * otherwise, and in every other engine, the pieces' equations run. Both show the same slots and leave the same state.
 */
export interface ViewLoop {
  /**
   * The module, base64: it imports `env.memory`, and `env.keys` if it reads keys, has no data of its own, and exports
   * some of the functions `index`, `before`, `choose`, `finish` and `after`, each `(view, own, row, scratch)`, and
   * `score`, `(view, own, row, from, to, scratch)`. For each KV head run, one after the other, `index`, `before` for its
   * query heads, and `score` for parts of its slots, which reads and writes what is that KV head's alone. When all have
   * ended, `choose` runs for the query heads that `before` left active, and `finish` for every query head, which reads
   * its own choice alone; when these have ended, `after` for every query head. kernel/view.ts of @kv/cpu names the words of
   * `view` and `own`.
   */
  readonly bytes?: string;
  /** The first of its own words: options, as whole numbers or the bits of floats. @defaultValue none */
  readonly words?: readonly number[];
  /** States that it reads and writes in place: an address and a stride in numbers, each. @defaultValue none */
  readonly states?: readonly ViewLoopState[];
  /**
   * What it keeps about keys, one entry of `numbers` f32 for every `slots` slots of a KV head. It is extended by
   * `index`, and starts again when slots move.
   */
  readonly index?: { readonly slots: number; numbers(headDim: number): number };
  /** Number of last queries that it reads, the newest among them. @defaultValue the newest alone */
  readonly window?: number;
  /** First and last positions that it forces, for pieces that do nothing else. */
  readonly forces?: ForcedEnds;
  /** Positions of a unit, for pieces that cut units and score each row's by their mean. */
  readonly unit?: number;
  /** Returns how many numbers of keys and of its index a row reads that chooses. @defaultValue none */
  readonly reads?: (at: LayerContext) => number;
  /**
   * Returns whether its equation must run at this step; `first` gives the first number of a state of the layer.
   * @defaultValue never
   */
  readonly rests?: (at: LayerContext, first: (state: State) => number) => boolean;
}

/** A state of a loop. */
export interface ViewLoopState {
  readonly state: State;
  /** Returns its columns in use. @defaultValue one for every position or slot, or the width of its declaration */
  readonly columns?: (at: LayerContext) => number;
}

/** A weight of a checkpoint as numbers, row-major. */
interface Weight {
  readonly shape: readonly number[];
  readonly data: readonly number[];
}
export type TestWeights = Readonly<Record<string, Weight>>;
/** config.json as parsed, without the engine's own reader. */
export type Json = Readonly<Record<string, unknown>>;

import { Tensor } from '@huggingface/transformers';
import type { ModelOutputs } from './inputs.ts';
import type { SessionCache } from './record.ts';
import type { SessionShape } from './shape.ts';

/** Names tensors as the graph does. */
export const entries = (layers: readonly SessionCache[], prefix: 'present' | 'past_key_values'): ModelOutputs =>
  Object.fromEntries(
    layers.flatMap(({ key, value }, l) => [
      [`${prefix}.${l}.key`, key],
      [`${prefix}.${l}.value`, value],
    ]),
  );

export const bytesOf = ({ size, type }: Tensor): number => size * (type === 'float32' ? 4 : 2);

export function emptyLayers({ layers, kvHeads, headDim, type }: SessionShape): SessionCache[] {
  const none = (): Tensor =>
    new Tensor(type as 'float32', type === 'float32' ? new Float32Array(0) : new Uint16Array(0), [
      1,
      kvHeads,
      0,
      headDim,
    ]);
  return Array.from({ length: layers }, () => ({
    key: none(),
    value: none(),
    positions: Array.from({ length: kvHeads }, () => new Uint32Array(0)),
  }));
}

/** Counts the caches that hold each device tensor, which is freed once none does. */
export class TensorHolders {
  readonly #holders = new WeakMap<Tensor, number>();

  /** Adds `by` to the count of each device tensor of a cache, and frees those that no cache holds. */
  add(layers: readonly SessionCache[], by: number): void {
    for (const tensor of layers.flatMap(({ key, value }) => [key, value])) {
      if (tensor.location !== 'gpu-buffer') continue;
      const holders = (this.#holders.get(tensor) ?? 0) + by;
      this.#holders.set(tensor, holders);
      if (holders <= 0) tensor.dispose();
    }
  }
}

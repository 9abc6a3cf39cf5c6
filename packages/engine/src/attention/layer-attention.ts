import type { Decoder, DecoderLayer } from '../decoder/decoder.ts';
import type { SlotVisibility } from './visible.ts';

/** A layer's options for `attend` and the like, in addition to queries and a cache. */
export interface LayerAttention {
  readonly scale: number;
  readonly softcap?: number;
  /** The learned sink of each query head, where the model has them. */
  readonly sinks?: Float32Array;
  /** The layer's sliding window, if it has one, and further views. */
  readonly visible?: readonly SlotVisibility[];
}

/** Returns the attention options of a layer of the model, with further views. */
export function layerAttention(
  {
    config: {
      attention: { scale, softcap, windows },
    },
    layers,
  }: Pick<Decoder, 'config'> & { readonly layers: readonly Pick<DecoderLayer, 'sinks'>[] },
  layer: number,
  views: readonly SlotVisibility[] = [],
): LayerAttention {
  const window = windows[layer] ?? Infinity;
  const visible =
    window === Infinity ? views : [{ lower: (position: number) => Math.max(0, position - window + 1) }, ...views];
  const { sinks } = layers[layer];
  return {
    scale,
    ...(softcap !== undefined && { softcap }),
    ...(sinks && { sinks }),
    ...(visible.length > 0 && { visible }),
  };
}

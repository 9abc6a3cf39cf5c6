import type { ModelConfig } from '@kv/checkpoints';
import type { SlotVisibility } from './visible.ts';

/** A layer's options for `attend` and the like, in addition to queries and a cache. */
export interface LayerAttention {
  readonly scale: number;
  readonly softcap?: number;
  /** The layer's sliding window, if it has one, and further views. */
  readonly visible?: readonly SlotVisibility[];
}

/** Returns the attention options of a layer, with further views. */
export function layerAttention(
  { attention: { scale, softcap, windows } }: ModelConfig,
  layer: number,
  views: readonly SlotVisibility[] = [],
): LayerAttention {
  const window = windows[layer] ?? Infinity;
  const visible =
    window === Infinity ? views : [{ lower: (position: number) => Math.max(0, position - window + 1) }, ...views];
  return { scale, ...(softcap !== undefined && { softcap }), ...(visible.length > 0 && { visible }) };
}

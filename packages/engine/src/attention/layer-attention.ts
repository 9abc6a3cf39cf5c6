import type { ModelConfig } from '@kv/checkpoints';
import type { SlotVisibility } from './visible.ts';

/**
 * How a layer's attention differs from the plain kind: what `attend` and the others take beside queries and a cache.
 */
export interface LayerAttention {
  readonly scale: number;
  readonly softcap?: number;
  /** The layer's sliding window, if it has one, and whatever else is hidden. */
  readonly visible?: readonly SlotVisibility[];
}

/** The attention of a layer, with more views to respect. */
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

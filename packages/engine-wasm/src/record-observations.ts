import { addColumns, toHeads } from '@kv/engine';
import type { LayerMemory } from '@kv/engine';
import type { Heap } from './heap.ts';

/** Addresses of a layer's last `window` queries `[window, H * d]`, and of the sums of its weights `[H, stride]`. */
interface WindowQueries {
  readonly queries: number;
  readonly window: number;
  readonly shares: number;
  readonly stride: number;
}

/** Records what a layer observes of the rows at these positions. @param H query heads */
export function recordObservations(
  heap: Heap,
  layer: LayerMemory,
  H: number,
  positions: Uint32Array,
  shift: number,
  { queries, window, shares, stride }: WindowQueries,
): void {
  const m = positions.length,
    { headDim: d } = layer.cache;
  if (layer.ring) {
    layer.ring.skip(m - window);
    if (window > 0) {
      const data = heap.floats(queries, window * H * d),
        q = toHeads(data, window, d);
      layer.ring.push(q, positions.subarray(m - window), shift);
    }
  }
  addShares(heap, layer, H, { shares, stride });
}

/** Adds the weights of a layer's rows to its sums. */
export function addShares(
  heap: Heap,
  layer: LayerMemory,
  H: number,
  { shares, stride }: Pick<WindowQueries, 'shares' | 'stride'>,
): void {
  for (const sums of [layer.accumulated, layer.block]) {
    if (!sums) continue;
    sums.grow(layer.cache.length);
    for (let h = 0; h < H; h++)
      addColumns(
        { stride: sums.stride, columnSum: sums.data },
        H,
        h,
        slotShares(heap, layer, H, h, shares + 4 * h * stride),
        undefined,
      );
  }
}

/** Returns the numbers from an address on of the slots that query head h of H sees: heads may hold different numbers. */
export function slotShares(heap: Heap, { cache }: LayerMemory, H: number, h: number, address: number): Float32Array {
  return heap.floats(address, cache.lengths[Math.floor((h * cache.heads) / H)]);
}

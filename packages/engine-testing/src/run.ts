import { attend, layerAttention, LayerCache, Ledger, type HostDecoder, type Projection } from '@kv/engine';

export interface ProgramRunOptions {
  /** Position of the first id. */
  readonly start?: number;
  readonly block?: number;
  /** Rows (indices into ids) whose logits are returned. */
  readonly want?: readonly number[];
  /** Called for each layer of each block once its keys and values are in the cache. */
  readonly watch?: (layer: number, projected: Projection, positions: Uint32Array) => void;
}

/**
 * Runs ids through the decoder in blocks, as a minimal host; returns the logits of the rows in `want` (indices into
 * ids).
 */
export async function run(
  decoder: HostDecoder,
  caches: readonly LayerCache[],
  ids: readonly number[],
  { start = 0, block = ids.length, want = [ids.length - 1], watch }: ProgramRunOptions = {},
): Promise<Float32Array[]> {
  const out: Float32Array[] = [];
  const D = decoder.config.hidden;
  for (let at = 0; at < ids.length; at += block) {
    const part = ids.slice(at, at + block);
    const positions = Uint32Array.from(part, (_, i) => start + at + i);
    let x = decoder.embed(part);
    for (const [layer, cache] of caches.entries()) {
      const projected = await decoder.project(layer, x, positions, start + ids.length);
      cache.append(projected.k, projected.v, positions);
      watch?.(layer, projected, positions);
      x = await decoder.finish(
        layer,
        x,
        attend({ q: projected.q, queryPositions: positions, cache, ...layerAttention(decoder.config, layer) }),
        projected.gate,
      );
    }
    for (const row of want)
      if (row >= at && row < at + part.length)
        out.push(await decoder.logits(x.subarray((row - at) * D, (row - at + 1) * D)));
  }
  return out;
}

/** Returns empty caches for every layer of a decoder. */
export function emptyCaches(
  { config: { layers, kvHeads, headDim } }: Pick<HostDecoder, 'config'>,
  ledger: Ledger = new Ledger(),
): LayerCache[] {
  return Array.from({ length: layers }, () => new LayerCache(kvHeads, headDim, ledger));
}

/** Returns max |a - b| over max |b|. */
export function relative(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let [difference, size] = [0, 0];
  for (let i = 0; i < b.length; i++) {
    difference = Math.max(difference, Math.abs(a[i] - b[i]));
    size = Math.max(size, Math.abs(b[i]));
  }
  return difference / size;
}

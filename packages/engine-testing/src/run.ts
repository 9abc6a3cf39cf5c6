import { slotHeads } from '@kv/checkpoints';
import { attend, keptLayers, layerAttention, LayerCache, Ledger, type HostDecoder, type Projection } from '@kv/engine';

export interface ProgramRunOptions {
  /** Position of the first id. */
  readonly start?: number;
  readonly block?: number;
  /** Rows (indices into ids) whose logits are returned. */
  readonly want?: readonly number[];
  /** States of the layers that keep no slots. @defaultValue those before the first token */
  readonly states?: readonly Float32Array[];
  /** Called for each layer that keeps slots, of each block once its keys and values are in the cache. */
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
  { start = 0, block = ids.length, want = [ids.length - 1], states, watch }: ProgramRunOptions = {},
): Promise<Float32Array[]> {
  const out: Float32Array[] = [],
    D = decoder.config.hidden,
    kept = keptLayers(decoder.config),
    carried = states ?? kept.states.map((size) => new Float32Array(size));
  for (let first = 0; first < ids.length; first += block) {
    const part = ids.slice(first, first + block);
    const positions = Uint32Array.from(part, (_, i) => start + first + i);
    let x = decoder.embed(part);
    const inputs = await decoder.layerInputs(part, x);
    for (const [layer, { kind, at }] of kept.all.entries()) {
      if (kind === 'state') {
        x = await decoder.finish(layer, x, await decoder.mix(layer, x, carried[at]), undefined, inputs);
        continue;
      }
      const cache = caches[at],
        projected = await decoder.project(layer, x, positions, start + ids.length);
      if (kind === 'slots') cache.append(projected.k, projected.v, positions);
      watch?.(layer, projected, positions);
      x = await decoder.finish(
        layer,
        x,
        attend({ q: projected.q, queryPositions: positions, cache, ...layerAttention(decoder, layer) }),
        projected.gate,
        inputs,
      );
    }
    for (const row of want)
      if (row >= first && row < first + part.length)
        out.push(await decoder.logits(x.subarray((row - first) * D, (row - first + 1) * D)));
  }
  return out;
}

/** Returns empty caches for every layer of a decoder that keeps slots. */
export function emptyCaches({ config }: Pick<HostDecoder, 'config'>, ledger: Ledger = new Ledger()): LayerCache[] {
  return slotHeads(config).map(({ kvHeads, headDim }) => new LayerCache(kvHeads, headDim, ledger));
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

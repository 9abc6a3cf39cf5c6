import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';

const WORD = 1n << 32n;
/** Wellons' lowbias32 on whole numbers of any size, reduced modulo 2^32 after every step. */
function mixed(x: bigint): bigint {
  let h = (x + 0x9e3779b9n) % WORD;
  h = ((h ^ (h >> 16n)) * 0x7feb352dn) % WORD;
  h = ((h ^ (h >> 15n)) * 0x846ca68bn) % WORD;
  return h ^ (h >> 16n);
}

/** The highest 24 bits of the hash as a fraction: positions `[G, n]` to scores `[G, n]`. */
export function randomOracle(positions: NdArray<Uint32Array>, seed: number, layer: number): NdArray<Float64Array> {
  const [heads = 0, slots = 0] = positions.shape;
  const scores = ndarray(new Float64Array(heads * slots), [heads, slots]);
  for (let g = 0; g < heads; g++)
    for (let i = 0; i < slots; i++) {
      const h = [layer, g, positions.get(g, i)].reduce((state, x) => mixed(state ^ BigInt(x)), mixed(BigInt(seed)));
      scores.set(g, i, Number(h >> 8n) / 2 ** 24);
    }
  return scores;
}

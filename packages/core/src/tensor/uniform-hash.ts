import { kernel } from './kernel.ts';

/**
 * A number in [0, 1) for every slot, a 24-bit hash of (seed, layer, row, position): the same bits on every backend.
 *
 * @remarks Each of the four goes through another round of Wellons' 32-bit mixer, a bijection, so two rows of one
 * position never share a state. `positions` u32 `[G, n]`, output f32 `[G, n]`.
 */
export const uniformHash = kernel({
  id: 'uniform-hash',
  inputs: { positions: 'u32' },
  params: { seed: 'u32', layer: 'u32' },
  ragged: 'positions',
  output: { shape: ({ positions }) => positions },
  wgsl: /* wgsl */ `
fn mixed(given: u32) -> u32 {
  var x = given + 0x9e3779b9u;
  x = (x ^ (x >> 16u)) * 0x7feb352du;
  x = (x ^ (x >> 15u)) * 0x846ca68bu;
  return x ^ (x >> 16u);
}
fn run(index: u32) {
  let row = index / positions_shape.y;
  let h = mixed(mixed(mixed(mixed(params.seed) ^ params.layer) ^ row) ^ positions[index]);
  output[index] = f32(h >> 8u) * 5.9604644775390625e-8;
}`,
  ref({ positions: p }, { seed = 0, layer = 0 }, out) {
    const slots = p.shape[1],
      start = mixed(mixed(seed) ^ layer);
    for (let i = 0; i < out.length; i++)
      out[i] = (mixed(mixed(start ^ Math.floor(i / slots)) ^ p.data[i]) >>> 8) * 2 ** -24;
  },
});

function mixed(given: number): number {
  let x = (given + 0x9e3779b9) | 0;
  x = Math.imul(x ^ (x >>> 16), 0x7feb352d);
  x = Math.imul(x ^ (x >>> 15), 0x846ca68b);
  return (x ^ (x >>> 16)) >>> 0;
}

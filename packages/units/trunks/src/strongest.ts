import { kernel } from '@kv/core';
import { offer, WITHIN } from './edges.ts';
import type { Best } from './edges.ts';

/**
 * The eight largest entries of each row of `x [n, n]` off the diagonal that are larger than `above`, ties to the lower
 * column: column and entry alternately, `[n, 16]`; 0 and 0 where there are fewer. O(n) a row.
 */
export const strongest = kernel({
  id: 'strongest',
  inputs: { x: 'f32' },
  params: { above: 'f32' },
  per: 'row',
  output: { shape: ({ x }) => [x[0], 2 * WITHIN.most] },
  wgsl: /* wgsl */ `
fn run(row: u32) {
  let n = x_shape.y;
  var places = array<u32, ${WITHIN.most}>();
  var weights = array<f32, ${WITHIN.most}>();
  var have = 0u;
  for (var j = 0u; j < n; j++) {
    let w = x[row * n + j];
    if (j == row || !(w > params.above)) { continue; }
    var at = have;
    if (have == ${WITHIN.most}u) {
      if (!(w > weights[${WITHIN.most - 1}])) { continue; }
      at = ${WITHIN.most - 1}u;
    } else { have++; }
    for (; at > 0u && w > weights[at - 1u]; at--) { weights[at] = weights[at - 1u]; places[at] = places[at - 1u]; }
    weights[at] = w;
    places[at] = j;
  }
  for (var k = 0u; k < ${WITHIN.most}u; k++) {
    output[(row * ${WITHIN.most}u + k) * 2u] = select(0.0, f32(places[k]), k < have);
    output[(row * ${WITHIN.most}u + k) * 2u + 1u] = select(0.0, weights[k], k < have);
  }
}`,
  ref({ x }, { above }, out) {
    const [n = 0] = x.shape;
    out.fill(0);
    for (let row = 0; row < n; row++) {
      const best: Best = { to: [], weight: [] };
      for (let j = 0; j < n; j++) if (j !== row) offer(best, j, x.data[row * n + j], { most: WITHIN.most, above });
      best.to.forEach((j, k) => out.set([j, best.weight[k]], 2 * (row * WITHIN.most + k)));
    }
  },
});

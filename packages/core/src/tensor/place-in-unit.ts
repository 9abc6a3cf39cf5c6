import { kernel } from './kernel.ts';
import { range } from './range.ts';

/**
 * Rank of every slot among the slots of its unit, 0 = highest score, ties to the lower slot. Units are contiguous:
 * O(log size) per slot on the CPU, O(size) on WebGPU.
 */
export const placeInUnit = kernel({
  id: 'place-in-unit',
  inputs: { scores: 'f32', unitOf: 'u32' },
  ragged: 'scores',
  output: { shape: ({ scores }) => scores },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = scores_shape.y;
  let row = index / n;
  let here = index % n;
  let first = row / (scores_shape.x / unitOf_shape.x) * n;
  var place = 0u;
  if (here < scores_lengths[row]) {
    for (var i = here; i > 0u && unitOf[first + i - 1u] == unitOf[first + here]; i--) { if (scores[row * n + i - 1u] >= scores[index]) { place++; } }
    for (var i = here + 1u; i < scores_lengths[row] && unitOf[first + i] == unitOf[first + here]; i++) { if (scores[row * n + i] > scores[index]) { place++; } }
  }
  output[index] = f32(place);
}`,
  ref({ scores, unitOf }, _, out, lengths) {
    const [rows = 0, n = 0] = scores.shape,
      groups = unitOf.shape[0],
      s = scores.data;
    for (let row = 0; row < rows; row++) {
      const base = row * n,
        first = Math.floor((row * groups) / rows) * n;
      for (let from = 0, to = 0; from < lengths[row]; from = to) {
        while (to < lengths[row] && unitOf.data[first + to] === unitOf.data[first + from]) to++;
        const order = range(base + from, to - from).sort((a, b) => s[b] - s[a] || a - b);
        for (let place = 0; place < order.length; place++) out[order[place]] = place;
      }
    }
  },
});

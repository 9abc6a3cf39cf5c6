import { kernel } from './kernel.ts';

/**
 * Place of every slot among the slots of its unit, 0 = highest score, ties to the lower slot. Units are contiguous:
 * O(size) a slot.
 */
export const placeInUnit = kernel({
  id: 'place-in-unit',
  inputs: { scores: 'f32', unitOf: 'u32' },
  ragged: 'scores',
  per: 'element',
  output: { dtype: 'f32', shape: ({ scores }) => scores },
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
      groups = unitOf.shape[0];
    for (let row = 0; row < rows; row++) {
      const base = row * n,
        units = Math.floor((row * groups) / rows) * n;
      for (let first = 0, end = 0; first < lengths[row]; first = end) {
        while (end < lengths[row] && unitOf.data[units + end] === unitOf.data[units + first]) end++;
        placesOf(scores.data, base + first, base + end, out);
      }
    }
  },
});

/** Places of the slots of one unit. */
function placesOf(
  scores: Float32Array | Uint32Array,
  first: number,
  end: number,
  out: Float32Array | Uint32Array,
): void {
  for (let here = first; here < end; here++) {
    const score = scores[here];
    let place = 0;
    for (let i = first; i < here; i++) if (scores[i] >= score) place++;
    for (let i = here + 1; i < end; i++) if (scores[i] > score) place++;
    out[here] = place;
  }
}

/**
 * What may be drawn, in float64: the likeliest `topK` (0: all), of these the fewest with `topP` of the mass, of these
 * those with `minP` of the likeliest's probability; of equal logits the lower places. Shares are of the whole row's mass.
 */
export function nucleus(
  logits: readonly number[],
  temperature: number,
  topK: number,
  topP: number,
  minP = 0,
): { readonly places: Set<number>; readonly weights: readonly number[] } {
  const real = logits.map((_, i) => i).filter((i) => !Number.isNaN(logits[i])),
    top = Math.max(...real.map((i) => logits[i]));
  const weights = logits.map((x) => (Number.isNaN(x) ? 0 : x === top ? 1 : Math.exp((x - top) / temperature)));
  const order = real.sort((a, b) => logits[b] - logits[a] || a - b).slice(0, topK || logits.length),
    all = order.reduce((sum, i) => sum + weights[i], 0),
    places = new Set<number>();
  let mass = 0;
  for (const i of order) {
    if (places.size > 0 && mass >= topP * all) break;
    if (weights[i] >= minP) places.add(i);
    mass += weights[i];
  }
  return { places, weights };
}

const mixed = (x: number): number => {
  let h = x >>> 0;
  h = Math.imul(h ^ (h >>> 16), 0x7feb352d) >>> 0;
  h = Math.imul(h ^ (h >>> 15), 0x846ca68b) >>> 0;
  return (h ^ (h >>> 16)) >>> 0;
};
/** The draw in [0, 1) of a row at a step. */
export const drawOf = (seed: number, step: number, row: number): number =>
  (mixed(mixed(mixed(seed) ^ step) ^ row) >>> 8) / 2 ** 24;

/** Whole numbers from 0 on, of which ranges are copies: every layer asks for the same. */
let known = new Uint32Array(0);

/** So many whole numbers from `first` on. */
export function range(first: number, count: number): Uint32Array {
  const end = first + count;
  if (end > known.length) {
    known = new Uint32Array(2 * end);
    for (let i = 0; i < known.length; i++) known[i] = i;
  }
  return known.slice(first, end);
}

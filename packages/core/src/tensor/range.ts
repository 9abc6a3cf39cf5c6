/** Whole numbers from 0 on, from which ranges are copied, since every layer asks for the same. */
let known = new Uint32Array(0);

/** Returns `count` whole numbers from `first` on. */
export function range(first: number, count: number): Uint32Array {
  const end = first + count;
  if (end > known.length) {
    known = new Uint32Array(2 * end);
    for (let i = 0; i < known.length; i++) known[i] = i;
  }
  return known.slice(first, end);
}

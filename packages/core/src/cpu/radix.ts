/** How many numbers have each value of the bits that a pass looks at: 8 KiB, which stay in the first-level cache. */
const counts = new Uint32Array(2048);
let order = new Uint32Array(0);
let floats = new Float32Array(0);

/** Where `nth` takes n numbers from, and leaves others. Whoever asks next gets the same memory. */
export function numbersFor(n: number): Float32Array {
  if (floats.length < n) {
    floats = new Float32Array(Math.max(n, 2 * floats.length));
    order = new Uint32Array(floats.buffer);
  }
  return floats;
}

/** The order of floats, by their bits, as that of whole numbers: -0 is 0. */
function ordered(bits: number): number {
  // a set sign turns all bits, a clear one the sign
  return (bits < 0x8000_0000 ? bits | 0x8000_0000 : bits === 0x8000_0000 ? bits : ~bits) >>> 0;
}

/**
 * The k-th largest of the first n numbers in `numbersFor(n)`, k from 1, none of them NaN, and how many of the k largest
 * equal it: radix selection by 11, 11 and 10 bits, each pass over those that tie so far. O(n).
 */
export function nth(n: number, k: number): { readonly border: number; readonly ties: number } {
  let left = k;
  counts.fill(0);
  for (let i = 0; i < n; i++) {
    const x = ordered(order[i]);
    order[i] = x;
    counts[x >>> 21]++;
  }
  const high = bin(2047);
  let ties = 0;
  counts.fill(0);
  for (let i = 0; i < n; i++) {
    const x = order[i];
    if (x >>> 21 === high) {
      order[ties++] = x;
      counts[(x >>> 10) & 2047]++;
    }
  }
  const middle = bin(2047);
  counts.fill(0);
  for (let i = 0; i < ties; i++) if (((order[i] >>> 10) & 2047) === middle) counts[order[i] & 1023]++;
  const placed = ((high << 21) | (middle << 10) | bin(1023)) >>> 0;
  order[0] = placed < 0x8000_0000 ? ~placed : placed & 0x7fff_ffff;
  return { border: floats[0], ties: left };

  /** The bits of the one that is sought, from `at` downwards, once those above are counted off. */
  function bin(at: number): number {
    for (; counts[at] < left; at--) left -= counts[at];
    return at;
  }
}

/** Places in `data` by what stands there, largest first, ties in the order given; none of them NaN. O(n). */
export function descending(data: Float32Array, places: Uint32Array): Uint32Array {
  const n = places.length;
  let [from, to] = [places.slice(), new Uint32Array(n)],
    [keys, next] = [new Uint32Array(n), new Uint32Array(n)];
  const bits = new Uint32Array(data.buffer, data.byteOffset, data.length);
  for (let i = 0; i < n; i++) keys[i] = ~ordered(bits[from[i]]);
  for (let shift = 0; shift < 32; shift += 11) {
    counts.fill(0);
    for (let i = 0; i < n; i++) counts[(keys[i] >>> shift) & 2047]++;
    for (let b = 0, before = 0; b < counts.length; b++) {
      const count = counts[b];
      counts[b] = before;
      before += count;
    }
    for (let i = 0; i < n; i++) {
      const key = keys[i],
        at = counts[(key >>> shift) & 2047]++;
      to[at] = from[i];
      next[at] = key;
    }
    [from, to] = [to, from];
    [keys, next] = [next, keys];
  }
  return from;
}

/** Numbers below which a sort is quicker than counting. */
const FEW = 1024;

/**
 * The k-th largest of some numbers, k from 1, none of them NaN: by sorting, or where they are many by counting, 16 bits
 * of their order at a time.
 */
export function nth(numbers: Float32Array, k: number): number {
  if (numbers.length < FEW) return numbers.slice().sort()[numbers.length - k];
  const bits = new Uint32Array(numbers.slice().buffer),
    counts = new Uint32Array(65_536);
  // the order of floats as that of whole numbers: a set sign turns all bits, a clear one the sign
  for (let i = 0; i < bits.length; i++)
    counts[(bits[i] = bits[i] >>> 31 === 1 ? ~bits[i] : bits[i] | 0x8000_0000) >>> 16]++;
  let left = k;
  const high = kth();
  counts.fill(0);
  for (let i = 0; i < bits.length; i++) if (bits[i] >>> 16 === high) counts[bits[i] & 0xffff]++;
  const ordered = ((high << 16) | kth()) >>> 0;
  return new Float32Array(Uint32Array.of(ordered >>> 31 === 1 ? ordered & 0x7fff_ffff : ~ordered).buffer)[0];

  /** Where the k-th largest lies, and how many of those there stand before it. */
  function kth(): number {
    let at = counts.length - 1;
    for (; counts[at] < left; at--) left -= counts[at];
    return at;
  }
}

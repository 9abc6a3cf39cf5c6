import { rowBytes } from '@kv/engine';
import type { Rows } from '@kv/engine';

/** Returns `count` rows of d numbers, from row `at` on, as they lie on the device: each row's codes, then its scales. */
export function toWords({ form, codes, scales }: Rows, d: number, at: number, count: number): Uint32Array {
  const bytes = rowBytes(form, d),
    each = bytes.codes + bytes.scales,
    out = new Uint8Array(count * each);
  for (let r = 0; r < count; r++) {
    out.set(codes.subarray((at + r) * bytes.codes, (at + r + 1) * bytes.codes), r * each);
    out.set(scales.subarray((at + r) * bytes.scales, (at + r + 1) * bytes.scales), r * each + bytes.codes);
  }
  return new Uint32Array(out.buffer);
}

/** Returns the first `counts[g]` rows of each head of `words [G, capacity]`, head after head. */
export function fromWords(
  { buffer, byteOffset, byteLength }: ArrayBufferView,
  form: Rows['form'],
  d: number,
  counts: readonly number[],
): Rows {
  const bytes = rowBytes(form, d),
    each = bytes.codes + bytes.scales,
    from = new Uint8Array(buffer, byteOffset, byteLength),
    capacity = byteLength / each / counts.length,
    all = counts.reduce((a, b) => a + b, 0),
    codes = new Uint8Array(all * bytes.codes),
    scales = new Uint8Array(all * bytes.scales);
  let to = 0;
  for (const [g, n] of counts.entries())
    for (let at = g * capacity * each, end = at + n * each; at < end; at += each, to++) {
      codes.set(from.subarray(at, at + bytes.codes), to * bytes.codes);
      scales.set(from.subarray(at + bytes.codes, at + each), to * bytes.scales);
    }
  return { form, codes, scales };
}

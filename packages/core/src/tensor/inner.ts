/**
 * Returns the inner product of n numbers of `a` from i on with those of `b` from j on, as four independent partial
 * sums.
 */
export function inner(
  a: Float32Array | Uint32Array,
  i: number,
  b: Float32Array | Uint32Array,
  j: number,
  n: number,
): number {
  let w = 0,
    x = 0,
    y = 0,
    z = 0,
    c = 0;
  for (; c + 3 < n; c += 4) {
    w += a[i + c] * b[j + c];
    x += a[i + c + 1] * b[j + c + 1];
    y += a[i + c + 2] * b[j + c + 2];
    z += a[i + c + 3] * b[j + c + 3];
  }
  for (; c < n; c++) w += a[i + c] * b[j + c];
  return w + x + y + z;
}

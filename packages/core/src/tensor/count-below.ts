/** Returns how many of the ascending positions are below `limit`. */
export function countBelow(positions: Uint32Array, limit: number): number {
  let low = 0;
  let high = positions.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (positions[middle] < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

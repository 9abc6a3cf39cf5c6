/**
 * The authors' line over layers with mean `above`, from 2 above - above / beta down, or from `most` where that is less.
 */
export function line(above: number, most: number, beta: number, layers: number): number[] {
  const top = Math.min(2 * above - above / beta, most),
    bottom = 2 * above - top;
  return Array.from({ length: layers }, (_, l) => top - (l * (top - bottom)) / (layers - 1));
}

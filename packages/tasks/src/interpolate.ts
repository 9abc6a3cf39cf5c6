/**
 * Returns the height at `x` of the piecewise linear curve through points; undefined outside it. Points with the same x
 * are averaged.
 */
export function interpolate(points: readonly (readonly [x: number, y: number])[], x: number): number | undefined {
  const places = [...new Set(points.map(([at]) => at))].sort((a, b) => a - b),
    height = (at: number): number => {
      const there = points.filter(([place]) => place === at);
      return there.reduce((sum, [, y]) => sum + y, 0) / there.length;
    };
  const right = places.findIndex((place) => place >= x);
  if (right < 0 || (right === 0 && places[0] !== x)) return undefined;
  if (places[right] === x) return height(x);
  const [from, to] = [places[right - 1], places[right]];
  return height(from) + ((x - from) / (to - from)) * (height(to) - height(from));
}

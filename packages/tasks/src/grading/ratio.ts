/** From this length on, characters of the second text that occur in more than one of a hundred places are ignored. */
const POPULAR_FROM = 200;

/**
 * Returns the similarity of two texts as Python's difflib defines it: 2·matched / (length of both), by
 * the blocks they share.
 */
export function ratio(a: string, b: string): number {
  const [x, y] = [[...a], [...b]],
    places = new Map<string, number[]>();
  for (const [j, char] of y.entries()) places.set(char, [...(places.get(char) ?? []), j]);
  if (y.length >= POPULAR_FROM)
    for (const [char, at] of places) if (at.length > Math.floor(y.length / 100) + 1) places.delete(char);
  let matched = 0;
  const left = [[0, x.length, 0, y.length]];
  for (let range = left.pop(); range; range = left.pop()) {
    const [fromX, toX, fromY, toY] = range,
      [i, j, size] = longest(x, y, places, fromX, toX, fromY, toY);
    if (size === 0) continue;
    matched += size;
    left.push([fromX, i, fromY, j], [i + size, toX, j + size, toY]);
  }
  return x.length + y.length === 0 ? 1 : (2 * matched) / (x.length + y.length);
}

/** Returns the first longest common run of two ranges, extended by popular characters at its ends. */
function longest(
  x: readonly string[],
  y: readonly string[],
  places: ReadonlyMap<string, readonly number[]>,
  fromX: number,
  toX: number,
  fromY: number,
  toY: number,
): readonly [i: number, j: number, size: number] {
  let bestI = fromX,
    bestJ = fromY,
    size = 0,
    runs = new Map<number, number>();
  for (let i = fromX; i < toX; i++) {
    const next = new Map<number, number>();
    for (const j of places.get(x[i]) ?? []) {
      if (j < fromY || j >= toY) continue;
      const run = (runs.get(j - 1) ?? 0) + 1;
      next.set(j, run);
      if (run > size) [bestI, bestJ, size] = [i - run + 1, j - run + 1, run];
    }
    runs = next;
  }
  while (bestI > fromX && bestJ > fromY && x[bestI - 1] === y[bestJ - 1])
    [bestI, bestJ, size] = [bestI - 1, bestJ - 1, size + 1];
  while (bestI + size < toX && bestJ + size < toY && x[bestI + size] === y[bestJ + size]) size++;
  return [bestI, bestJ, size];
}

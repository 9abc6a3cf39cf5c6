/**
 * Returns the names closest to a misspelt one, best first: at most `count`, and only those that differ in a minor part.
 */
function nearest(name: string, names: readonly string[], count = 3): readonly string[] {
  const wanted = name.toLowerCase();
  return names
    .map((candidate) => ({
      candidate,
      cost:
        candidate.toLowerCase().includes(wanted) && wanted.length > 2
          ? 1
          : editDistance(wanted, candidate.toLowerCase()),
    }))
    .filter(({ candidate, cost }) => cost <= Math.max(1, Math.floor(Math.max(candidate.length, wanted.length) * 0.4)))
    .sort((a, b) => a.cost - b.cost || a.candidate.length - b.candidate.length)
    .slice(0, count)
    .map(({ candidate }) => candidate);
}

/** Returns " (did you mean a, b or c?)", or an empty text. */
export function didYouMean(name: string, names: readonly string[]): string {
  const near = nearest(name, names);
  return near.length === 0
    ? ''
    : ` (did you mean ${near.length === 1 ? near[0] : `${near.slice(0, -1).join(', ')} or ${near.at(-1)}`}?)`;
}

/** Returns the Levenshtein distance of two words, except that swapping two neighbours is one change. */
export function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i),
    before = row;
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      next.push(
        Math.min(
          row[j] + 1,
          next[j - 1] + 1,
          row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1),
          swapped ? before[j - 2] + 1 : Infinity,
        ),
      );
    }
    [before, row] = [row, next];
  }
  return row[b.length];
}

/**
 * Number of the span of every token: the occurrences of the delimiter that end before it, left to right, without those
 * that no token follows before the next one, and one more from the prompt's end on.
 */
export function spanNumbers(words: readonly string[], delimiter: string, prompt: number): number[] {
  const ended = words.map((_, i) => words.slice(0, i).join('').split(delimiter).length);
  return ended.map((_, i) => ended.slice(1, i + 1).filter((now, k) => now !== ended[k] || k + 1 === prompt).length);
}
/** Score of every span from its own slots, 0 without any. */
export function spanScores(
  scores: readonly number[],
  of: readonly number[],
  count: number,
  kind: 'mean' | 'max' | 'sum',
): number[] {
  return Array.from({ length: count }, (_, u) => {
    const own = scores.filter((_score, i) => of[i] === u),
      sum = own.reduce((a, b) => a + b, 0);
    if (own.length === 0) return 0;
    return kind === 'max' ? Math.max(...own) : kind === 'sum' ? sum : sum / own.length;
  });
}

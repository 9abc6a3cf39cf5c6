/**
 * Returns Rouge-L of a summary as in pltrdy/rouge and so in LongBench: sentences end at ".", each distinct word counts
 * once, and a word is recalled if the longest common subsequence of its sentence with any sentence of the answer
 * contains it.
 */
export function rougeL(answer: string, truth: string): number {
  const given = sentences(answer),
    wanted = sentences(truth),
    m = new Set(wanted.flat()).size,
    n = new Set(given.flat()).size;
  if (m === 0 || n === 0) return 0;
  const union = new Set(wanted.flatMap((sentence) => given.flatMap((other) => common(sentence, other)))),
    recall = union.size / m,
    precision = union.size / n;
  return (2 * precision * recall) / (precision + recall + 1e-8);
}

/** Splits into the words of sentences; one of white space alone is an empty word. */
const sentences = (text: string): readonly (readonly string[])[] =>
  text
    .split('.')
    .filter((sentence) => sentence !== '')
    .map((sentence) => sentence.trim().split(/\s+/));

/** Returns the words of the longest common subsequence; of two equally long ones the left is followed. */
function common(x: readonly string[], y: readonly string[]): readonly string[] {
  const width = y.length + 1,
    table = new Uint32Array((x.length + 1) * width);
  for (let i = 1; i <= x.length; i++)
    for (let j = 1; j <= y.length; j++)
      table[i * width + j] =
        x[i - 1] === y[j - 1]
          ? table[(i - 1) * width + j - 1] + 1
          : Math.max(table[(i - 1) * width + j], table[i * width + j - 1]);
  const found: string[] = [];
  for (let i = x.length, j = y.length; i > 0 && j > 0; ) {
    if (x[i - 1] === y[j - 1]) {
      found.push(x[i - 1]);
      i--;
      j--;
    } else if (table[(i - 1) * width + j] > table[i * width + j - 1]) i--;
    else j--;
  }
  return found;
}

/** Returns the sum of numbers, added in their order. */
export function sumOf(numbers: Iterable<number>): number {
  let sum = 0;
  for (const x of numbers) sum += x;
  return sum;
}

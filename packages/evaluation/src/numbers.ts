/** Returns the sum; 0 for no numbers. */
export const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);
/** Returns the mean; NaN for no numbers. */
export const mean = (numbers: readonly number[]): number => sum(numbers) / numbers.length;
/** Formats a share of 1 as percent. */
export const percent = (share: number, digits = 0): string => `${(100 * share).toFixed(digits)} %`;

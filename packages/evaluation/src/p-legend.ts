/** Explains how p is computed, for readers of a table. */
export const pLegend =
  'p is two-sided, the larger of two: that of 10,000 bootstrap draws of problems, and that of the sign-flip test, how often chance would bring so large a mean difference if it alone turned the difference of each problem one arm or the other.';

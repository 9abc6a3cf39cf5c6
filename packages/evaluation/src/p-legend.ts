/** How p is made, for readers of a table. */
export const pLegend =
  'p is two-sided, from 10,000 bootstrap draws of problems: .0002 is the least that so many draws give, and 2 to the power of 1 - k the least that k problems can give whose arms differ, since chance could have turned all of them round.';

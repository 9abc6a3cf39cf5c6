/** Query rows of one head that are worked on together. */
export const blockRows = 16;

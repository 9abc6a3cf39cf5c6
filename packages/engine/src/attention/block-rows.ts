/** Query rows of one head that are computed together. */
export const blockRows = 16;

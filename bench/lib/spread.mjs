export const median = (xs) => [...xs].sort((a, b) => a - b)[Math.floor(xs.length / 2)];

/** Formats the median of some numbers and, in brackets, the smallest and the largest. */
export const spread = (xs, digits = 2) =>
  xs.length === 0
    ? ''
    : `${median(xs).toFixed(digits)} (${Math.min(...xs).toFixed(digits)}-${Math.max(...xs).toFixed(digits)})`;

/** A command without attention. */
export const nothing = {
  caches: 0,
  position: 0,
  packed: 0,
  queries: 0,
  window: 0,
  shares: 0,
  stride: 0,
  apart: 0,
  sums: 0,
  scales: 0,
};

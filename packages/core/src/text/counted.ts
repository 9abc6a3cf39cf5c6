/** Formats a number of things: `1 token`, `2 tokens`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;

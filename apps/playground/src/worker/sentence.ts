/** Returns what an error says. */
export const sentenceOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

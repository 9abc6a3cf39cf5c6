export { retainHistory } from './retain-history.ts';
export type { HistoryItem, HistoryShift } from './retain-history.ts';
export { retainTokens } from './retain-tokens.ts';
export type { RetainTokensOptions, TokenRange } from './retain-tokens.ts';
export type { LlamaModelLike, LlamaSequenceLike } from './tokens.ts';

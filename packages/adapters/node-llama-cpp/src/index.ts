export { retainHistory } from './retain-history.ts';
export type { HistoryStrategy, RetainHistoryOptions } from './retain-history.ts';
export { retainTokens } from './retain-tokens.ts';
export type { RetainTokensOptions } from './retain-tokens.ts';

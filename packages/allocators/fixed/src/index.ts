export { duoAttention, HEAD_SCORES_FILE } from './duo-attention.ts';
export { headScores, headScoresFile } from './on-the-fly.ts';
export type { MeanVectors } from './on-the-fly.ts';
export { fixedBudgets } from './fixed-budgets.ts';
export { BUDGET_CURVE_FILE, lukv } from './lukv.ts';
export type { Numbers } from './numbers.ts';

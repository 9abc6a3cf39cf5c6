export { entropyVarianceBudgets, cakeScores } from './entropy-variance-budgets.ts';
export { byRank, compositeTokens } from './composite-tokens.ts';
export { topScoreBudgets } from './top-score-budgets.ts';
export { inOrder } from './border.ts';
export { modelWide } from './model-wide.ts';
export { countFrom } from './search.ts';
export { shareOut } from './share-out.ts';

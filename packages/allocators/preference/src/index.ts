export { cake, cakeScores } from './cake.ts';
export { byRank, compositeTokens } from './composite-tokens.ts';
export { dynamickv } from './dynamickv.ts';
export { inOrder } from './border.ts';
export { modelWide } from './model-wide.ts';
export { countFrom } from './search.ts';
export { shareOut } from './share-out.ts';

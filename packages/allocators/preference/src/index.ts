export { cake, cakeScores } from './cake.ts';
export type { CakeOptions, CakeScoresOptions } from './cake.ts';
export { dynamickv } from './dynamickv.ts';
export type { DynamickvOptions } from './dynamickv.ts';
export { inOrder, modelWide } from './model-wide.ts';
export { shareOut } from './share-out.ts';

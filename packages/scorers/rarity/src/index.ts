export { frequency } from './frequency.ts';
export { rarity } from './rarity.ts';
export type { RarityOptions } from './rarity.ts';

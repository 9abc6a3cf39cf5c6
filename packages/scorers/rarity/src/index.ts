export { frequency } from './frequency.ts';
export { rarity } from './rarity.ts';

export { caote } from './caote.ts';
export type { CaoteOptions } from './caote.ts';
export { fastCaote } from './fast-caote.ts';

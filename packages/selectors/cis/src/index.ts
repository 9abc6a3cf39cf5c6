export { cis, retrievals } from './cis.ts';
export { activeDots, dots } from './dots.ts';
export { decode, matching, newestKey, remember } from './history.ts';

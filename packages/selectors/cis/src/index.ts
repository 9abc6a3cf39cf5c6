export { cis, retrievals } from './cis.ts';
export { activeDots, queryKeyProducts } from './query-key-products.ts';
export { decode, matching, newestKey, remember } from './history.ts';

export { topK } from './top-k.ts';

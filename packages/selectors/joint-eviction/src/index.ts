export { evictionOrder, firstColumns } from './greedy.ts';
export { jointError } from './joint-error.ts';
export { jointEviction } from './joint-eviction.ts';

export { diversity } from './diversity.ts';
export { greedyOrder } from './greedy.ts';
export { addByPosition } from './signatures.ts';

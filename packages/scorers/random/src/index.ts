export { random } from './random.ts';
export { uniformHash } from './uniform-hash.ts';

export { knorm } from './knorm.ts';

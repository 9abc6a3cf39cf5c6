export { uniform } from './uniform.ts';

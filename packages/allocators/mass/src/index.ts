export { mass, prefix } from './mass.ts';

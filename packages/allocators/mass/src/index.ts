export { mass, prefix } from './mass.ts';
export type { MassOptions } from './mass.ts';

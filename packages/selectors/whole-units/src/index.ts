export { wholeUnits } from './whole-units.ts';
export type { WholeUnitsOptions } from './whole-units.ts';

export { wholeUnits } from './whole-units.ts';

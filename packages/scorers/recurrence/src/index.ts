export { recurrence } from './recurrence.ts';

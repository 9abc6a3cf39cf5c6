export { quota } from './quota.ts';

export { atLeast } from './at-least.ts';
export { simlayerkv } from './simlayerkv.ts';
export { threshold } from './threshold.ts';

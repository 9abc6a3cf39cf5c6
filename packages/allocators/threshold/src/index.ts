export { simlayerkv } from './simlayerkv.ts';
export { threshold } from './threshold.ts';

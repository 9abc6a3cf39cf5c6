export { simlayerkv } from './simlayerkv.ts';
export type { SimlayerkvOptions } from './simlayerkv.ts';
export { threshold } from './threshold.ts';
export type { ThresholdOptions } from './threshold.ts';

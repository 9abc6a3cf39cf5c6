export { matching } from './detector.ts';
export type { Detector } from './detector.ts';
export { recency } from './recency.ts';
export { regex } from './regex.ts';
export { sponsorship } from './sponsorship.ts';
export type { SponsorshipOptions } from './sponsorship.ts';
export { structure } from './structure.ts';
export { vouchers } from './vouchers.ts';

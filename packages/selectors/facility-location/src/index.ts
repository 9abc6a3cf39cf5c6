export { facilityLocation } from './facility-location.ts';
export { firstGains, greedyCover } from './greedy.ts';

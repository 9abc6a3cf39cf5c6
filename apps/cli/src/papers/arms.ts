import type { Arm } from './types.ts';

/** An arm as results name it. */
export const armKey = ({ policy, budget }: Arm): string => (budget === undefined ? policy : `${policy} @ ${budget}`);
/** What others are compared with where nothing is evicted. */
export const FULL: Arm = { policy: 'full' };

import { budgetFaults } from './budget-faults.ts';
import type { FaultPoint } from './fault-point.ts';
import { hookFaults } from './hook-faults.ts';
import { policyFaults } from './policy-faults.ts';
import { scoreFaults } from './score-faults.ts';

/** Every point where a piece or hook of any kind gives something. */
export const faultPoints: readonly FaultPoint[] = [...scoreFaults, ...budgetFaults, ...hookFaults, ...policyFaults];

export { worstCaseAttention } from './worst-case-attention.ts';
export { questionAttention } from './question-attention.ts';
export { future } from './future.ts';
export { phases } from './phases.ts';
export { groupMaxAttention } from './group-max-attention.ts';
export { lastNear, redundancy } from './redundancy.ts';
export { scissorhands } from './scissorhands.ts';

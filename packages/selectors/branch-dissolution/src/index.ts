export { allowance, branchDissolution } from './branch-dissolution.ts';

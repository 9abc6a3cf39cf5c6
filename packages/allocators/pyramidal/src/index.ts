export { linearBudgets } from './linear-budgets.ts';
export { roundedLinearBudgets } from './rounded-linear-budgets.ts';

export { etf } from './etf.ts';
export { psaw } from './psaw.ts';

export { etf } from './etf.ts';
export type { EtfOptions } from './etf.ts';
export { psaw } from './psaw.ts';
export type { PsawOptions } from './psaw.ts';

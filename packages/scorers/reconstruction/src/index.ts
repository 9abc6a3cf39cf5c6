export { kvcompose, rereading } from './kvcompose.ts';
export { kvzip, reconstruction } from './kvzip.ts';
export type { KvzipOptions } from './kvzip.ts';

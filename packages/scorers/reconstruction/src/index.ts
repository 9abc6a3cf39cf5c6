export { kvcompose, rereading } from './kvcompose.ts';
export { kvzip, reconstruction } from './kvzip.ts';

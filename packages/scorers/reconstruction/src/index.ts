export { kvcompose, rereading } from './kvcompose.ts';
export { kvzip, reconstruction, reconstructionOverHidden } from './kvzip.ts';

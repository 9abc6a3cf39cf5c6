export { rereadingAttention, rereading } from './rereading-attention.ts';
export { kvzip, reconstruction, reconstructionOverHidden } from './kvzip.ts';

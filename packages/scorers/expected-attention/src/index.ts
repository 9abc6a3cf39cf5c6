export { expectedAttention } from './expected-attention.ts';
export type { ExpectedAttentionOptions } from './expected-attention.ts';

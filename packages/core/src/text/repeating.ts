import type { ProviderEngine } from '../piece/signals.ts';

/**
 * Returns the ids that make a model repeat its context: an instruction, then the context.
 *
 * @remarks The prompt of KVzip, Kim et al. 2025, arXiv:2505.23416.
 */
export const repeating = ({ encode, ids }: Pick<ProviderEngine, 'encode' | 'ids'>): readonly number[] => [
  ...encode('\n\nRepeat the previous context exactly.\n'),
  ...ids,
];

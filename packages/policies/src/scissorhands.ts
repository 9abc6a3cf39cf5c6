import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { scissorhands as score } from '@kv/scorers-window';
import type { ScissorhandsOptions } from '@kv/scorers-window';
import { topK } from '@kv/selectors-top-k';

/**
 * Scissorhands: slots that were above the mean weight in the most of the last steps. Liu et al. 2023, arXiv:2305.17118.
 */
export const scissorhands = (options?: ScissorhandsOptions): Policy => compose(score(options), topK());

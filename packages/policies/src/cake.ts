import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { cake as budgets, cakeScores } from '@kv/allocators-preference';
import type { CakeOptions } from '@kv/allocators-preference';
import { topK } from '@kv/selectors-top-k';

/** CAKE: layers by entropy and variance of their attention, slots by its mean and variance. Qin et al. 2025 (ICLR). */
export const cake = ({ window = 32, tau1 = 1, tau2 = 1 }: CakeOptions = {}): Policy =>
  compose(cakeScores({ window }), budgets({ window, tau1, tau2 }), topK());

import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { cap as score } from '@kv/scorers-expected-attention';
import type { CapOptions } from '@kv/scorers-expected-attention';
import { topK } from '@kv/selectors-top-k';

/** CapKV: values that add most to the capacity of a head. Yang et al. 2026, arXiv:2604.25975. */
export const cap = (options?: CapOptions): Policy => compose(score(options), topK());
